//! The hubs that keep the store together: consensus among them, with one member of it in each hub. A grid with one hub has a group of
//! one, so that there is one kind of store.

use super::store::Store;
use crate::space::log::LogError;
use crate::space::log::replicated::{Kept, Leader, Links, MemberFile, Replicated, Timing};
use crate::space::{Directory, FIRST_JOINING};
use phalanx_core::error::SpaceError;
use phalanx_core::hub::Change;
use phalanx_core::space::{Options, Replica, Seat};
use phalanx_core::wire::hub::HubAt;
use phalanx_net::identity::{Member, random_number};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The name of the space in the hub's folder, and among the hubs.
const NAME: &str = "members";
/// The number of the hub that begins the grid.
const FIRST: u64 = 1;
/// Interval of the leading hub's beats. The others elect a hub after six to eight beats of silence, and members find it some 200 ms
/// later: within the three seconds that a loss may take. A shorter beat would take the silence of a slow disk for a loss.
const BEAT: Duration = Duration::from_millis(150);
/// A hub that answers no beat for so long is shown as away: 13 beats.
const SILENCE: Duration = Duration::from_secs(2);
/// Timeout for a file that another process of this hub has just closed, and for a group of one to lead itself.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// Most changes that are copied at once from the store of an earlier version.
const PAGE: usize = 500;

/// This hub's part in the group.
pub struct Group {
    /// Its member of the consensus.
    pub replicated: Arc<Replicated>,
    /// The same, for the links of other hubs.
    pub kept: Arc<Kept>,
    /// Its number among the members.
    pub number: u64,
    links: Arc<Links>,
}

/// Addresses as the group keeps them.
pub fn joined(addresses: &[String]) -> String {
    addresses.join(",")
}

impl Group {
    /// Opens the hub's part, whose files are in this folder. `joins`: the hub has joined a grid that has a hub already.
    pub fn open(folder: &Path, own: &Arc<Member>, addresses: &[String], joins: bool) -> Result<Group, SpaceError> {
        let directory = Directory::new(folder);
        let path = directory.replica(NAME)?;
        if directory.has(NAME) {
            if !path.exists() {
                copy(folder, &path, own)?;
            }
            // A hub of an earlier version must not go on with the old store.
            fs::remove_file(folder.join(format!("{NAME}.space"))).map_err(not_kept)?;
        }
        let number = if joins { FIRST_JOINING.max(random_number() as u64) } else { FIRST };
        let group = Group::open_file(&path, own, number)?;
        if group.number == FIRST {
            let own = Replica { name: own.name.clone(), address: joined(addresses) };
            group.replicated.found(&BTreeMap::from([(FIRST, own)])).map_err(not_kept)?;
            // The group is known a moment later. Until then it seems not to be one of this hub alone.
            let until = Instant::now() + PATIENCE;
            while group.replicated.members().is_empty() && Instant::now() < until {
                thread::sleep(PAUSE / 10);
            }
        }
        Ok(group)
    }

    /// Opens this hub's part again, after its store has failed and [`Self::close`].
    pub fn again(&self, folder: &Path, own: &Arc<Member>) -> Result<Group, SpaceError> {
        Group::open_file(&Directory::new(folder).replica(NAME)?, own, self.number)
    }

    fn open_file(path: &Path, own: &Arc<Member>, number: u64) -> Result<Group, SpaceError> {
        let until = Instant::now() + PATIENCE;
        let seat = Seat { number, group: NAME.to_owned(), options: Options::default() };
        let file = loop {
            match MemberFile::open(path, Some(seat.clone())) {
                Err(LogError::InUse(_)) if Instant::now() < until => thread::sleep(PAUSE),
                opened => break opened.map_err(not_kept)?,
            }
        };
        let file = file.ok_or_else(|| not_kept("the file is empty"))?;
        let number = file.seat.number;
        let links = Arc::new(Links::of_hub(own.clone(), NAME));
        let replicated = file.start(Timing { beat: BEAT }, links.clone()).map_err(not_kept)?;
        let kept = Arc::new(Kept::of_hub(replicated.clone()));
        Ok(Group { replicated, kept, number, links })
    }

    /// Whether this hub is the whole group.
    pub fn is_alone(&self) -> bool {
        let members = self.replicated.members();
        members.len() == 1 && members.contains_key(&self.number)
    }

    /// The hubs, and which one leads as far as this one knows.
    pub fn hubs(&self) -> Vec<HubAt> {
        let addresses = |text: &str| text.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        let members = self.replicated.keepers().members.into_iter();
        members.map(|it| HubAt { addresses: addresses(&it.address), name: it.name, leads: it.leads }).collect()
    }

    /// How long the hub of this name has been silent, if that exceeds [`SILENCE`]. `leads_for`: how long this hub has led. Earlier silence
    /// does not count, because only the leader asks the other hubs.
    pub fn silence(&self, name: &str, leads_for: Duration) -> Option<Duration> {
        let silence = self.links.answered(name).map_or(leads_for, |it| it.elapsed().min(leads_for));
        Some(silence).filter(|it| *it > SILENCE)
    }

    /// Waits until another hub leads than before, for so long.
    pub fn wait(&self, known: &Leader, patience: Duration) -> Leader {
        self.replicated.wait_for_leader(known, patience)
    }

    /// Ends this hub's part, and closes its file.
    pub fn close(&self) {
        self.kept.stop();
        self.replicated.close();
    }

    /// Ends this hub's part.
    pub fn stop(&self) {
        self.kept.stop();
    }
}

/// Copies the store of an earlier version, which one hub alone kept, into the file of a group of one. The file gets its name when
/// everything is in it.
fn copy(folder: &Path, path: &Path, own: &Arc<Member>) -> Result<(), SpaceError> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new); // of a copy that was cut off
    let mut changes: Vec<Change> = Vec::new();
    let hosted = Directory::new(folder).open(NAME, None)?;
    Store::of(hosted, |change| changes.push(change))?.close();
    let group = Group::open_file(&new, own, FIRST)?;
    let name = Replica { name: own.name.clone(), address: String::new() };
    group.replicated.found(&BTreeMap::from([(FIRST, name)])).map_err(not_kept)?;
    let until = Instant::now() + PATIENCE;
    while group.replicated.leader() != Leader::Here {
        if Instant::now() > until {
            return Err(not_kept("the copy of the store does not begin"));
        }
        thread::sleep(PAUSE);
    }
    let store = Store::lead(&group.replicated, |_| ())?;
    for page in changes.chunks(PAGE) {
        store.keep(page)?.wait()?;
    }
    store.close();
    group.stop();
    drop((store, group));
    fs::rename(&new, path).map_err(not_kept)?;
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(not_kept)
}

fn not_kept(why: impl ToString) -> SpaceError {
    SpaceError::NotKept(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Founded;
    use phalanx_core::hub::{Asking, Good, Hub, Who};
    use phalanx_net::identity::{Authority, Role};

    #[test]
    fn the_store_of_an_earlier_version_is_copied_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let founded = Founded::by(&Authority::create().expect("a root"), "labpc").expect("is a name");
        let own = Arc::new(Member::parse(&founded.hub, Role::Hub).expect("is a hub"));
        let mut hub = Hub::default();
        let ada = Asking { who: Who::user("ada"), key: "key".into() };
        let mut kept = hub.found(1, ada, Good { fingerprint: "one".into(), until: 100 }, true);
        kept.extend((0..20).flat_map(|id| hub.invite(2, "ada", ([id; 32], "executor"), 1, 60).expect("is an owner")));
        let hosted = Directory::new(folder.path()).open(NAME, Some(Options::default())).expect("opens");
        let earlier = Store::of(hosted, |_| ()).expect("is empty");
        earlier.keep(&kept).and_then(super::super::store::Kept::wait).expect("is kept");
        earlier.close();
        for _ in 0..2 {
            let group = Group::open(folder.path(), &own, &["127.0.0.1:1".to_owned()], false).expect("opens");
            while group.replicated.leader() != Leader::Here {
                thread::sleep(PAUSE);
            }
            let mut found = Vec::new();
            let store = Store::lead(&group.replicated, |change| found.push(change)).expect("leads");
            assert_eq!(found.len(), kept.len());
            assert!(kept.iter().all(|change| found.contains(change)));
            assert!(group.is_alone() && !Directory::new(folder.path()).has(NAME));
            store.close();
            group.stop();
        }
    }
}
