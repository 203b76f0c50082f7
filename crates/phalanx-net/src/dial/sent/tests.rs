use super::*;
use crate::identity::{Authority, Member, Revoked, Role};
use crate::link::{Link, LinkError, Reader};
use crate::socket::{Listener, Socket};
use crate::tls::{Offer, offer};
use phalanx_core::level::Mark;
use phalanx_core::wire::{FromExecutor, encode};
use std::fs;
use std::net::SocketAddr;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

struct Grid {
    authority: Authority,
    folder: TempDir,
}

impl Grid {
    fn new() -> Grid {
        Grid { authority: Authority::create().unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    fn list_of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn member(&self, role: Role, name: &str) -> Member {
        let member = Member::parse(&self.authority.issue(role, name).unwrap(), role).unwrap();
        member.heeding(vec![self.list_of(name)]).renewing(None, Vec::new()).unwrap()
    }

    /// Writes a list that is the `number`th, and returns it.
    fn revoke(&self, number: usize, at: &str) -> String {
        let entry = || Revoked {
            when: "2026-01-02T03:04:05Z".to_owned(),
            role: Role::User,
            name: "gone".to_owned(),
            fingerprint: "ab".repeat(32),
            until: None,
        };
        let lists = (0..number).fold(None, |earlier: Option<String>, _| {
            Some(self.authority.revoke(earlier.as_deref(), vec![entry()]).unwrap())
        });
        fs::write(self.list_of(at), lists.as_deref().unwrap()).unwrap();
        lists.unwrap()
    }

    fn has(&self, name: &str, list: &str) -> bool {
        fs::read_to_string(self.list_of(name)).is_ok_and(|found| found == list)
    }
}

/// What the server has heard: the preambles of connections.
type Heard = Arc<Mutex<Vec<Preamble>>>;

/// A server for this member, which offers these news, or those that it has. Other links than those for news stay open.
fn server(member: Member, says: Option<NewsDigest>) -> (SocketAddr, Heard) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let (address, heard) = (listener.address().unwrap(), Heard::default());
    let log = heard.clone();
    thread::spawn(move || {
        let mut links = Vec::new();
        while let Ok((socket, _)) = listener.accept() {
            links.extend(serve(socket, &member, says, &log).ok().flatten());
        }
    });
    (address, heard)
}

fn serve(
    mut socket: Socket,
    member: &Member,
    says: Option<NewsDigest>,
    heard: &Heard,
) -> io::Result<Option<Arc<Link>>> {
    let mut timed = socket.until(Instant::now() + LONG);
    let preamble = Preamble::read(&mut timed)?;
    let offered = Offer { levels: LEVELS.exactly(), news: says.unwrap_or_else(|| member.news().digest()) };
    let mut shaken = offer(member.server().unwrap(), offered, &preamble.bound(), &mut timed)?;
    shaken.heed(member.revocations())?;
    if !preamble.carries_news() {
        shaken.tell(member.news());
    }
    lock(heard).push(preamble);
    let (link, reader) = Link::new(socket, Some(shaken), MAX_CONTROL_BODY)?;
    if preamble == Preamble::News {
        talk(reader, Exchange::of_server(member.news()), || false, drop)?;
        return Ok(None);
    }
    link.queue(Mark::None, encode(&FromExecutor::Beat { stopped: Vec::new() }, 0), Vec::new());
    link.flush();
    Ok(Some(link))
}

/// A link to the server, over which a first message has arrived.
fn reach(client: &Client, address: SocketAddr, expected: &str) -> io::Result<Arc<Link>> {
    Ok(open(client, address, expected)?.0)
}

/// The same, and its reader.
fn open(client: &Client, address: SocketAddr, expected: &str) -> io::Result<(Arc<Link>, Reader)> {
    let dialled = dial(&address.into(), LONG)?;
    let introduced = dialled.introduce(Preamble::Files, Expected::Named(client, expected), LEVELS, LONG)?;
    let (link, mut reader) = introduced.link(MAX_CONTROL_BODY)?;
    let mut is_heard = false;
    while !is_heard {
        reader.poll(LONG, &mut |_| is_heard = true).map_err(io::Error::other)?;
    }
    Ok((link, reader))
}

fn client_of(member: &Member) -> Client {
    member.newest().client_of(Role::Executor).unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn talks(heard: &Heard) -> usize {
    lock(heard).iter().filter(|it| **it == Preamble::News).count()
}

#[test]
fn news_travel_in_both_directions_beside_a_link() {
    let grid = Grid::new();
    let (ada, bob, labpc) =
        (grid.member(Role::User, "ada"), grid.member(Role::User, "bob"), grid.member(Role::Executor, "labpc"));
    let list = grid.revoke(1, "ada");
    let (address, _) = server(labpc, None);
    drop(reach(&client_of(&ada), address, "labpc").unwrap());
    finish(LONG);
    assert!(grid.has("labpc", &list));
    drop(reach(&client_of(&bob), address, "labpc").unwrap());
    finish(LONG);
    assert!(grid.has("bob", &list));
}

#[test]
fn ends_with_the_same_news_open_no_further_link_until_there_are_some() {
    let grid = Grid::new();
    let (ada, labpc) = (grid.member(Role::User, "ada"), grid.member(Role::Executor, "labpc"));
    let (address, heard) = server(labpc, None);
    for _ in 0..3 {
        drop(reach(&client_of(&ada), address, "labpc").unwrap());
    }
    finish(LONG);
    assert_eq!(*lock(&heard), [Preamble::Files; 3]);
    let (link, reader) = open(&client_of(&ada), address, "labpc").unwrap();
    let reading = thread::spawn(move || reader.run(LONG, |_| panic!("no message of the service"), |_| ()));
    let list = grid.revoke(1, "ada");
    until("the list travels while a link is open", || grid.has("labpc", &list));
    let newer = grid.revoke(2, "labpc");
    until("and back, because the server says so", || grid.has("ada", &newer));
    link.close();
    assert!(matches!(reading.join(), Ok(LinkError::Closed)), "the service hears nothing of it");
}

#[test]
fn a_server_that_says_other_news_than_it_has_is_not_asked_at_each_link() {
    let grid = Grid::new();
    let (ada, labpc) = (grid.member(Role::User, "ada"), grid.member(Role::Executor, "labpc"));
    let says = NewsDigest { revoked: 7, renewed: [7; 16] };
    let (address, heard) = server(labpc, Some(says));
    for _ in 0..5 {
        drop(reach(&client_of(&ada), address, "labpc").unwrap());
        finish(LONG);
    }
    assert!((1..5).contains(&talks(&heard)));
}

/// A server whose news differ each time.
#[test]
fn a_server_that_varies_what_it_says_is_not_asked_at_each_link() {
    let grid = Grid::new();
    let (ada, labpc) = (grid.member(Role::User, "ada"), grid.member(Role::Executor, "labpc"));
    let talks: usize = (0..5)
        .map(|number| {
            let says = NewsDigest { revoked: 7 + number, renewed: [7; 16] };
            let (address, heard) = server(labpc.clone(), Some(says));
            drop(reach(&client_of(&ada), address, "labpc").unwrap());
            finish(LONG);
            talks(&heard)
        })
        .sum();
    assert!((1..5).contains(&talks));
}

#[test]
fn a_courier_that_failed_is_followed_by_another() {
    let grid = Grid::new();
    let (ada, labpc) = (grid.member(Role::User, "ada"), grid.member(Role::Executor, "labpc"));
    let list = grid.revoke(1, "ada");
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let (says, refused) = (Some(NewsDigest { revoked: 0, renewed: [7; 16] }), Arc::new(Mutex::new(0)));
    let count = refused.clone();
    thread::spawn(move || {
        let (heard, mut links) = (Heard::default(), Vec::new());
        while let Ok((socket, _)) = listener.accept() {
            if !links.is_empty() && *lock(&count) < 2 {
                *lock(&count) += 1; // hangs up
            } else {
                links.extend(serve(socket, &labpc, says, &heard).ok().flatten());
            }
        }
    });
    let link = reach(&client_of(&ada), address, "labpc").unwrap();
    until("the list travels", || grid.has("labpc", &list));
    assert_eq!(*lock(&refused), 2);
    drop(link);
}

#[test]
fn the_oldest_pair_of_ends_makes_room_for_a_new_one() {
    let grid = Grid::new();
    let text = grid.authority.issue(Role::Executor, "labpc").unwrap();
    let holder = Holder::of(&crate::identity::first_certificate(&text).unwrap()).unwrap();
    let pair = |number: usize| (holder.clone(), vec![PathBuf::from(number.to_string())]);
    let ours = NewsDigest { revoked: 1, renewed: [1; 16] };
    let mut underway = Underway::default();
    let mut note = |number| underway.note(&pair(number), ours);
    assert!((0..=MOST_REMEMBERED).all(&mut note));
    assert!(!note(MOST_REMEMBERED), "the newest is remembered");
    assert!(note(0), "the oldest is not");
    assert_eq!(underway.told.len(), MOST_REMEMBERED);
}

#[test]
fn no_link_for_news_follows_a_handshake_that_failed_or_a_member_that_is_not_meant() {
    let (grid, others) = (Grid::new(), Grid::new());
    let ada = grid.member(Role::User, "ada");
    grid.revoke(1, "ada");
    let says = Some(NewsDigest { revoked: 7, renewed: [7; 16] });
    let (stranger, heard_there) = server(others.member(Role::Executor, "labpc"), says);
    let (address, heard) = server(grid.member(Role::Executor, "labpc"), says);
    assert!(reach(&client_of(&ada), stranger, "labpc").is_err());
    assert!(reach(&client_of(&ada), address, "ws7").is_err());
    finish(LONG);
    assert_eq!((talks(&heard_there), talks(&heard)), (0, 0));
}

#[test]
fn a_member_without_files_for_news_opens_no_link_for_them() {
    let grid = Grid::new();
    let ada = Member::parse(&grid.authority.issue(Role::User, "ada").unwrap(), Role::User).unwrap();
    let labpc = grid.member(Role::Executor, "labpc");
    grid.revoke(1, "labpc");
    let (address, heard) = server(labpc, None);
    drop(reach(&client_of(&ada), address, "labpc").unwrap());
    finish(LONG);
    assert_eq!(talks(&heard), 0);
}

#[test]
fn couriers_that_change_nothing_follow_each_other_after_longer_and_longer_rests() {
    let ours = NewsDigest { revoked: 1, renewed: [1; 16] };
    let told = |failures, repeats| Told { ours, when: Instant::now(), failures, repeats };
    let rests = [0, 1, 2, 5, 6, 100].map(|repeats| told(0, repeats).rest(ours).as_secs());
    assert_eq!(rests, [1, 2, 4, 32, 60, 60]);
    let newer = NewsDigest { revoked: 2, ..ours };
    assert_eq!(told(0, 100).rest(newer), Duration::ZERO, "there is something to tell");
    assert_eq!((told(0, 3).repeats_of(ours), told(0, 3).repeats_of(newer)), (4, 0));
    assert_eq!(told(1, 0).rest(newer), BACKOFF, "the server may be away");
}
