//! An executor as a guest: it is a member of another grid too, to which the hub of its own grid has lent it.
//!
//! The guest has an identity of its own in the other grid, whose key is made here. It has a second service with a door of its own, at
//! any free port, which serves users of the other grid by that grid's certificates. The service gives places for interpreters and
//! ranks, and neither spaces nor files. The owner of the machine bounds the places and chooses the cage ([`Lendable`]).
//!
//! A thread makes the guest what the hub said last. The identity outlasts the process, so that an executor that starts again is the
//! same member of the other grid.

use super::{AsResident, Common, END_PATIENCE, Options, Service};
use crate::activity::Activity;
use crate::cage::Cage;
use crate::door::Door;
use crate::log::Severity;
use crate::membership::{AskError, AtHub, HUBS, HubsFile, Stay, Telling, come_back, join, merged, why};
use crate::transfer::Exports;
use phalanx_core::hub::{LENT_BY, MAY_LEND, Token};
use phalanx_core::wire::hub::{Facts, GuestState, LONGEST_FACT, Terms};
use phalanx_net::identity::{Member, Role, sha256};
use phalanx_net::replace::LockedFolder;
use phalanx_net::socket::Listener;
use phalanx_net::sync::lock;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks at the stay in the other grid.
const PAUSE: Duration = Duration::from_secs(1);
/// The same while there is nothing to look at.
const IDLE: Duration = Duration::from_secs(3600);
/// Pause before the hub of the other grid is called again, to join or to leave.
const AGAIN: Duration = Duration::from_secs(10);
/// How long to wait for another process that writes in the folder of the guest.
const PATIENCE: Duration = Duration::from_secs(5);
/// The files of the guest: its identity, its renewed certificate, and the list of revoked ones.
const IDENTITY: &str = "executor.pem";
const RENEWED: &str = "renewed.pem";
const REVOKED: &str = "revoked.txt";

/// What the owner of a machine lets the owners of its grid lend to other grids.
#[derive(Debug, Clone)]
pub struct Lendable {
    /// The most places. 0: none any more. Then the executor only leaves the grid to which it was lent.
    pub places: u32,
    /// What processes of users of other grids may touch. `Err`: why they cannot be kept apart from the grid's own users.
    pub cage: Result<Cage, String>,
    /// The folder for the identity in the other grid.
    pub folder: PathBuf,
}

/// The executor as a guest, or as none.
pub struct Guests {
    home: Arc<Service>,
    lendable: Lendable,
    /// The address at which the executor listens.
    host: IpAddr,
    /// What the machine tells its own hub about itself.
    facts: Facts,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The newest terms that the hub has said, with a number. Before it has said any, the guest stays as it is: away.
    wanted: Option<(u64, Option<Terms>)>,
    said: GuestState,
    /// Whether the executor ends; and whether the guest has ended.
    is_over: bool,
    has_ended: bool,
}

/// A guest that serves.
struct Running {
    terms: Terms,
    token: Token,
    service: Arc<Service>,
    door: Arc<Door>,
    stay: Stay,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stay.close();
        self.door.close();
        self.service.end_all();
        self.service.common.places.lend(&self.token.grid, None);
    }
}

/// Why a guest does not begin, or does not end.
enum Failure {
    /// The hub of the other grid cannot be asked now.
    Later(String),
    /// It refuses, or this machine cannot.
    Never(String),
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        match error {
            AskError::Unreachable(_) | AskError::Ended(_) => Failure::Later(error.to_string()),
            _ => Failure::Never(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Never(error.to_string())
    }
}

fn never(why: impl ToString) -> Failure {
    Failure::Never(why.to_string())
}

impl Guests {
    /// Begins to be what the hub says.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(super) fn begin(lendable: Lendable, home: Arc<Service>, host: IpAddr, facts: Facts) -> io::Result<Arc<Guests>> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let guests = Arc::new(Guests { home, lendable, host, facts, state, changed });
        let serving = guests.clone();
        thread::Builder::new().name("phalanx-guest".into()).spawn(move || {
            serving.serve();
            lock(&serving.state).has_ended = true;
            serving.changed.notify_all();
        })?;
        if !guests.may_be_lent() {
            guests.be(None);
        }
        Ok(guests)
    }

    /// Whether the owner of the machine lets it be lent.
    pub(super) fn may_be_lent(&self) -> bool {
        self.lendable.places > 0
    }

    /// The hub says on which terms the executor is a guest. `None`: it is none.
    pub(super) fn be(&self, terms: Option<Terms>) {
        let mut state = lock(&self.state);
        let number = state.wanted.as_ref().map_or(0, |(number, _)| number + 1);
        state.said = match &terms {
            Some(terms) => GuestState { grid: grid_of(terms), why: "joins".to_owned(), ..GuestState::default() },
            None => GuestState::default(),
        };
        state.wanted = Some((number, terms));
        self.changed.notify_all();
    }

    /// How the executor is as a guest.
    pub(super) fn state(&self) -> GuestState {
        lock(&self.state).said.clone()
    }

    /// Ends the guest. It stays a member of the other grid, unless the hub has said that it is none. Waits for the end, and not for a hub
    /// that does not answer.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        self.changed.notify_all();
        drop(self.changed.wait_timeout_while(state, END_PATIENCE, |state| !state.has_ended));
    }

    fn serve(&self) {
        let (mut running, mut tried, mut done, mut again) = (None::<Running>, None, None, Instant::now());
        loop {
            let is_idle = running.is_none() && tried == done;
            let (wanted, is_over) = self.wait(tried, if is_idle { IDLE } else { PAUSE });
            let is_due =
                |number: u64| done != Some(number) && (tried != Some(number) || again <= Instant::now() || is_over);
            if let Some((number, terms)) = wanted.filter(|(number, _)| is_due(*number)) {
                tried = Some(number);
                match self.become_guest(&mut running, terms.as_ref(), is_over) {
                    Ok(()) => done = tried,
                    Err(Failure::Never(why)) => {
                        done = tried;
                        self.say(number, false, true, &why);
                    }
                    Err(Failure::Later(why)) => {
                        again = Instant::now() + AGAIN;
                        self.say(number, false, false, &why);
                    }
                }
            }
            if is_over {
                return;
            }
            self.look(&mut running, done);
        }
    }

    /// Says how the guest is in the other grid. One that is no member there any more ends.
    fn look(&self, running: &mut Option<Running>, done: Option<u64>) {
        let (Some(guest), Some(number)) = (&*running, done) else { return };
        match guest.stay.expelled() {
            Some(why) => {
                *running = None;
                self.forget();
                self.say(number, false, true, &why);
            }
            None => self.say(number, guest.stay.is_in(), false, &guest.stay.status()),
        }
    }

    /// Waits until the hub has said something new, or for so long. Returns what it said last, and whether the executor ends.
    fn wait(&self, tried: Option<u64>, pause: Duration) -> (Option<(u64, Option<Terms>)>, bool) {
        let is_old = |state: &mut State| {
            !state.is_over && state.wanted.as_ref().is_none_or(|(number, _)| Some(*number) == tried)
        };
        let waited = self.changed.wait_timeout_while(lock(&self.state), pause, is_old);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        (state.wanted.clone(), state.is_over)
    }

    fn say(&self, number: u64, is_in: bool, is_over: bool, why: &str) {
        let mut state = lock(&self.state);
        if state.wanted.as_ref().is_none_or(|(newest, terms)| *newest != number || terms.is_none()) {
            return;
        }
        let why = why.char_indices().take_while(|(at, letter)| at + letter.len_utf8() <= LONGEST_FACT);
        let why: String = why.map(|(_, letter)| letter).collect();
        let said = GuestState { is_in, is_over, why, grid: state.said.grid.clone() };
        if state.said != said {
            let grid = &said.grid;
            let what = match (is_in, is_over) {
                (_, true) => format!("this machine is no guest of the grid {grid}: {}", said.why),
                (true, _) => format!("this machine is a guest of the grid {grid}: {}", said.why),
                _ => format!("this machine is not yet a guest of the grid {grid}: {}", said.why),
            };
            let severity = if is_over { Severity::Warning } else { Severity::Info };
            self.home.log.limited(severity, &what, &what);
            state.said = said;
        }
    }

    /// Makes the guest what the hub says. `is_over`: the executor ends, and begins nothing.
    fn become_guest(&self, running: &mut Option<Running>, terms: Option<&Terms>, is_over: bool) -> Result<(), Failure> {
        let Some(terms) = terms else {
            *running = None;
            return self.leave();
        };
        if is_over {
            return Ok(());
        }
        let token: Token = terms.token.parse().map_err(never)?;
        // Another token of the same grid changes nothing for a member of it.
        let is_same = |it: &Running| {
            it.token.root == token.root
                && Terms { token: String::new(), ..it.terms.clone() } == Terms { token: String::new(), ..terms.clone() }
        };
        if running.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        *running = None;
        if token.root == sha256(self.home.member.authority()) {
            return Err(never("the token is of the machine's own grid"));
        }
        let cage = self.lendable.cage.as_ref().map_err(never)?;
        let member = self.member_there(&token, &terms.name)?;
        if lock(&self.state).is_over {
            return Ok(());
        }
        *running = Some(self.start(terms, token, cage, member)?);
        Ok(())
    }

    /// The identity in the other grid: that of before, or a new one.
    fn member_there(&self, token: &Token, name: &str) -> Result<Member, Failure> {
        if let Some(member) = self.identity() {
            if sha256(member.authority()) == token.root && member.name == name {
                return Ok(member);
            }
            let _ = self.leave(); // of another grid, which may be out of reach
            self.forget();
        }
        fs::create_dir_all(&self.lendable.folder)?;
        private(&self.lendable.folder)?;
        let folder = LockedFolder::wait_for(&self.lendable.folder, PATIENCE)?;
        let joined = join(token, name)?;
        self.hubs().keep_in(&folder, &merged(joined.hubs, token.hubs.clone()))?;
        folder.replace(&self.file(IDENTITY), joined.identity.as_bytes())?;
        drop(folder);
        self.identity().ok_or_else(|| never("the identity in the other grid cannot be read"))
    }

    /// The identity of an earlier stay.
    fn identity(&self) -> Option<Member> {
        let file = self.file(IDENTITY);
        let text = zeroize::Zeroizing::new(fs::read_to_string(&file).ok()?);
        let member = Member::parse_ended(&text, Role::Executor).ok()?.heeding(vec![self.file(REVOKED)]);
        member.renewing(Some(file), vec![self.file(RENEWED)]).ok()
    }

    fn start(&self, terms: &Terms, token: Token, cage: &Cage, member: Member) -> Result<Running, Failure> {
        let (home, common) = (&self.home, self.home.common.clone());
        let listener = Listener::bind(&SocketAddr::new(self.host, 0).to_string())?;
        let port = listener.address()?.port();
        let places = terms.places.min(self.lendable.places).min(home.options.capacity);
        let options = Options {
            capacity: places,
            accepted: terms.accepted.clone(),
            spaces: None,
            exports: Exports::default(),
            cage: cage.of_grid(member.authority()),
            hub: None,
            lendable: None,
            ..home.options.clone()
        };
        let facts = self.facts_there(terms, places);
        common.places.lend(&token.grid, Some(places));
        let service = guest_service(member.clone(), options, common, token.grid.clone(), home);
        let serving = service.clone();
        let serve = Box::new(move |peer, wanted| serving.serve(peer, wanted));
        let door = Door::open(vec![listener], Some(member.clone()), serve, home.log.clone())?;
        let resident = AsResident { service: service.clone(), door: door.clone(), guests: None };
        let telling = Telling { port, facts, ..Telling::default() };
        let hubs = token.hubs.clone();
        if service.options.cage.awaits_grid() {
            super::learn_grid(&service, &hubs)?;
        }
        let stay = Stay::begin(member, hubs, Some(self.hubs()), telling, Box::new(resident), home.log.clone())?;
        home.log
            .info(format!("lent to the grid {} as {}, with at most {places} of its places", token.grid, terms.name));
        Ok(Running { terms: terms.clone(), token, service, door, stay })
    }

    /// What the guest tells the other grid about the machine. The labels are words of its own grid, and help the other one as well.
    fn facts_there(&self, terms: &Terms, places: u32) -> Facts {
        let mut facts = self.facts.clone();
        facts.remove(MAY_LEND);
        facts.insert("interpreters".to_owned(), places.to_string());
        facts.insert(LENT_BY.to_owned(), terms.by.chars().take(LONGEST_FACT / 4).collect());
        match terms.accepted.is_empty() {
            true => drop(facts.remove("accepts")),
            false => {
                drop(facts.insert("accepts".to_owned(), terms.accepted.join(" ").chars().take(LONGEST_FACT).collect()))
            }
        }
        facts
    }

    /// Leaves the grid of the identity that is here, if there is one.
    fn leave(&self) -> Result<(), Failure> {
        let Some(member) = self.identity() else { return Ok(()) };
        let hubs = self.hubs().after(&[]);
        let leave = || {
            if member.validity()?.is_over() {
                let renewed = come_back(&member.newest(), &hubs)?;
                member.renewals().into_iter().for_each(|renewals| drop(renewals.take(renewed.as_bytes())));
            }
            AtHub::open(&member, &hubs)?.leave()
        };
        let later = match leave() {
            Err(AskError::Unreachable(reason)) => Some(reason),
            // The link of a member that has left ends, perhaps before the answer is read.
            Err(AskError::Ended(error)) => match why(&member, &hubs) {
                Some(AskError::NoMember(_)) => None,
                _ => Some(error.to_string()),
            },
            Ok(()) | Err(_) => None, // it has left, or was no member any more
        };
        if let Some(reason) = later {
            return Err(Failure::Later(reason));
        }
        self.forget();
        Ok(())
    }

    /// Removes the identity in the other grid.
    fn forget(&self) {
        for name in [IDENTITY, RENEWED, REVOKED, HUBS] {
            let _ = fs::remove_file(self.file(name)); // a file that was never written is not there
        }
    }

    /// Where the hubs of the other grid are.
    fn hubs(&self) -> HubsFile {
        HubsFile::beside(&self.file(IDENTITY))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.lendable.folder.join(name)
    }
}

/// The grid of a token, for people and for budgets. A damaged token has none.
fn grid_of(terms: &Terms) -> String {
    terms.token.parse().map_or_else(|_| String::new(), |token: Token| token.grid)
}

/// Lets only this account enter a folder.
fn private(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    #[cfg(not(unix))]
    let _ = folder; // what is made in a user's folder is the user's alone
    Ok(())
}

fn guest_service(member: Member, options: Options, common: Arc<Common>, grid: String, home: &Service) -> Arc<Service> {
    Arc::new(Service {
        member,
        options,
        common,
        guest_of: Some(grid),
        programs: AtomicU32::new(0),
        closed: AtomicBool::new(false),
        spaces: None,
        transfers: None,
        #[cfg(target_os = "linux")]
        jobs: None,
        activity: Arc::<Activity>::default(),
        log: home.log.clone(),
    })
}
