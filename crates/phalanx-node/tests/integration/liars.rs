//! A user who asks about files, and an executor that lies.
#![expect(clippy::unwrap_used, reason = "a test that fails says so")]

use phalanx_core::level::{Level, LevelSet, Mark, Policy};
use phalanx_core::wire::files::{About, Answer, Ask, Found, Kind, MOST_AHEAD, MOST_BODY, encode_found};
use phalanx_core::wire::transfer::Filter;
use phalanx_core::wire::{VERSION, decode, encode};
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_net::link::Link;
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::{Listener, Socket};
use phalanx_net::tls::offer;
use phalanx_node::transfer::files::{FilesError, Listing, NewFile, OpenFile, Reach, Session, Wanted};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// What is answered to a question: answers with their bodies; none: the link is closed.
type Answers = Vec<(Answer, Vec<u8>)>;

/// A user's session with an executor that answers as it likes, after it has said `first`.
fn session(first: Answer, lie: impl FnMut(&Ask) -> Option<Answers> + Send + 'static) -> Result<Session, FilesError> {
    let authority = Authority::create().unwrap();
    let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap().to_string().parse().unwrap();
    let liar = member(Role::Executor, "liar");
    thread::spawn(move || lie_to(listener.accept().unwrap().0, &liar, first, lie));
    let to = Reach { address, dialler: member(Role::User, "ada").into(), policy: Policy::default(), level: None };
    Session::open(to, &mut patient())
}

fn lie_to(mut socket: Socket, liar: &Member, first: Answer, mut lie: impl FnMut(&Ask) -> Option<Answers>) {
    let mut timed = socket.until(Instant::now() + PATIENCE);
    let said = Preamble::read(&mut timed).unwrap();
    let shaken = offer(liar.server().unwrap(), [LevelSet::from(Level::Private); 3], &said.bytes(), &mut timed).unwrap();
    let (link, reader) = Link::new(socket, Some(shaken), MOST_BODY).unwrap();
    let say = |link: &Link, answer: &Answer, body: Vec<u8>| {
        let start = encode(answer, body.len() as u64);
        link.queue(Mark::None, start, if body.is_empty() { Vec::new() } else { vec![body.into()] });
        link.flush();
    };
    say(&link, &first, Vec::new());
    let lying = link.clone();
    reader.run(
        Duration::from_millis(50),
        |frame| match decode::<Ask>(&frame.header).unwrap() {
            Ask::Beat => {}
            ask => match lie(&ask) {
                Some(answers) => answers.into_iter().for_each(|(answer, body)| say(&lying, &answer, body)),
                None => lying.close(),
            },
        },
        |link| say(link, &Answer::Beat, Vec::new()),
    );
}

/// Waits no longer than a test may take.
fn patient() -> impl FnMut() -> bool {
    let until = Instant::now() + PATIENCE;
    move || Instant::now() < until
}

fn hello() -> Answer {
    Answer::Offer { phalanx: VERSION.to_owned() }
}

fn asking(lie: impl FnMut(&Ask) -> Option<Answers> + Send + 'static) -> Arc<Session> {
    Arc::new(session(hello(), lie).unwrap())
}

fn file(size: u64) -> About {
    About { kind: Kind::File { size }, mode: Some(0o644), modified: (0, 0), kept: None, content: None }
}

fn folder() -> About {
    About { kind: Kind::Folder, mode: None, modified: (0, 0), kept: None, content: None }
}

fn page(found: &[(&[u8], Result<About, String>)], more: bool) -> (Answer, Vec<u8>) {
    let encoded = |body, (path, about): &(&[u8], Result<About, String>)| {
        encode_found(&Found { path: path.to_vec(), about: about.clone() }, body)
    };
    (Answer::Page { count: found.len() as u32, more }, found.iter().fold(Vec::new(), encoded))
}

fn wanted(depth: u32, exclude: &[&str], matching: &[&str]) -> Wanted {
    let texts = |of: &[&str]| of.iter().map(|text| (*text).to_owned()).collect();
    let filter = Filter { exclude: texts(exclude), ..Filter::default() };
    Wanted { path: b"/x".into(), depth, filter, matching: texts(matching), contents: false }
}

/// What comes of a listing in which this is told.
fn listed(path: &[u8], about: Result<About, String>, wanted: Wanted) -> Result<usize, FilesError> {
    let told = page(&[(path, about)], false);
    let session = asking(move |_| Some(vec![told.clone()]));
    let listing = Listing::new(&session, wanted, &mut patient())?;
    Ok(listing.page(&mut patient())?.map_or(0, |found| found.len()))
}

#[test]
fn names_that_lead_elsewhere_or_were_not_asked_for_are_not_believed() {
    for path in [&b"../x"[..], b"/etc/passwd", b"a/../b", b"..", b".", b"", b"a\0", b"a//b", b"a/"] {
        assert!(listed(path, Ok(file(1)), wanted(9, &[], &[])).is_err(), "{path:?}");
        if !path.is_empty() {
            assert!(listed(path, Err("no".into()), wanted(9, &[], &[])).is_err(), "{path:?}");
        }
    }
    assert!(listed(b"a/b", Ok(file(1)), wanted(0, &[], &[])).is_err(), "deeper than was asked for");
    assert!(listed(b"a/b/c", Err("no".into()), wanted(0, &[], &[])).is_err());
    assert!(listed(b".bashrc", Ok(file(1)), wanted(0, &[], &["*.csv"])).is_err());
    assert!(listed(b".x.csv", Ok(file(1)), wanted(0, &[], &["*.csv"])).is_err(), "it is hidden");
    assert!(listed(b"x.tmp", Ok(file(1)), wanted(0, &["*.tmp"], &[])).is_err());
    assert!(listed(b"cache/x", Ok(file(1)), wanted(1, &["cache/"], &[])).is_err(), "in what is left out");
    assert_eq!(listed(b"x.csv", Ok(file(1)), wanted(0, &[], &["*.csv"])).unwrap(), 1);
    assert_eq!(listed(b"a/x", Ok(file(1)), wanted(1, &["cache/"], &[])).unwrap(), 1);
    assert_eq!(listed(b"", Err("unreadable".into()), wanted(0, &[], &["*.csv"])).unwrap(), 1);
}

#[test]
fn folders_in_each_other_are_not_endless() {
    let deep = |folders: usize| format!("{}x", "d/".repeat(folders)).into_bytes();
    assert_eq!(listed(&deep(128), Ok(file(1)), wanted(u32::MAX, &["c"], &[])).unwrap(), 1);
    assert!(listed(&deep(129), Ok(file(1)), wanted(u32::MAX, &[], &[])).is_err());
}

#[test]
fn a_pattern_that_is_none_is_an_error_before_anything_is_asked() {
    for wrong in ["[z-a]", "{a", "[é]"] {
        for wanted in [wanted(0, &[], &[wrong]), wanted(0, &[wrong], &[])] {
            let session = asking(|_| panic!("it was asked"));
            let error = Listing::new(&session, wanted, &mut patient()).err().unwrap().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}

#[test]
fn facts_that_cannot_be_are_not_believed() {
    let wrong = [
        About { modified: (0, 1_000_000_000), ..file(1) },
        file(u64::MAX),
        About { kind: Kind::Link { target: vec![b'x'; 5000] }, ..file(1) },
        About { kind: Kind::Link { target: b"a\0b".into() }, ..file(1) },
    ];
    for about in wrong {
        assert!(listed(b"x", Ok(about.clone()), wanted(0, &[], &[])).is_err(), "{about:?}");
    }
}

#[test]
fn pages_that_are_none_end_the_listing() {
    let none = [
        (Answer::Page { count: 2, more: false }, page(&[(b"x", Ok(file(1)))], false).1),
        (Answer::Page { count: 0, more: false }, vec![1]),
        (Answer::Page { count: u32::MAX, more: false }, Vec::new()),
        (Answer::Done, Vec::new()),
        (Answer::Found(Some(folder())), Vec::new()),
    ];
    for told in none {
        let lie = told.clone();
        let session = asking(move |_| Some(vec![lie.clone()]));
        let listing = Listing::new(&session, wanted(0, &[], &[]), &mut patient()).unwrap();
        assert!(matches!(listing.page(&mut patient()), Err(FilesError::Nonsense)), "{told:?}");
        assert!(listing.page(&mut patient()).unwrap().is_none(), "and is over");
    }
}

#[test]
fn pages_without_end_come_one_at_a_time_and_whoever_waits_can_leave() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let session = asking(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Some(vec![page(&[(b"x", Ok(file(1)))], true)])
    });
    let listing = Listing::new(&session, wanted(0, &[], &[]), &mut patient()).unwrap();
    for number in 1..=1000 {
        assert_eq!(listing.page(&mut patient()).unwrap().unwrap().len(), 1);
        assert!(asked.load(Ordering::Relaxed) <= number + 1, "no more is asked for than one ahead");
    }
    let silent = asking(|_| Some(Vec::new()));
    let listing = Listing::new(&silent, wanted(0, &[], &[]), &mut patient()).unwrap();
    let mut patience = 3;
    let left = listing.page(&mut || {
        patience -= 1;
        patience > 0
    });
    assert!(matches!(left, Err(FilesError::Interrupted)));
}

#[test]
fn pages_without_anything_are_not_told_for_ever() {
    let session = asking(|_| Some(vec![page(&[], true)]));
    let listing = Listing::new(&session, wanted(0, &[], &["*.csv"]), &mut patient()).unwrap();
    assert!((0..2000).any(|_| listing.page(&mut patient()).is_err()));
    assert!(listing.page(&mut patient()).unwrap().is_none(), "and is over");
}

#[test]
fn a_file_is_as_long_as_was_told_or_there_is_an_error() {
    for (size, lengths) in [(10, [9, 11]), (MOST_BODY + 5, [0, MOST_BODY as usize - 1])] {
        for length in lengths {
            let session = asking(move |ask| {
                let (answer, body) = match ask {
                    Ask::Open { .. } => (Answer::Opened(file(size)), 0),
                    Ask::Read { .. } => (Answer::Data { digest: None }, length),
                    _ => (Answer::Done, 0),
                };
                Some(vec![(answer, vec![7; body])])
            });
            let open = OpenFile::new(&session, b"/x".into(), &mut patient()).unwrap();
            assert!(matches!(open.next(&mut patient()), Err(FilesError::Nonsense)), "{length} of {size}");
            assert!(matches!(open.read(0, 100, &mut patient()), Err(FilesError::Nonsense)), "{length} of {size}");
        }
    }
    for about in [folder(), About { kind: Kind::Other, ..folder() }, file(u64::MAX)] {
        let session = asking(move |_| Some(vec![(Answer::Opened(about.clone()), Vec::new())]));
        let open = OpenFile::new(&session, b"/x".into(), &mut patient());
        assert!(matches!(open, Err(FilesError::Nonsense)), "it is no file");
    }
}

#[test]
fn who_left_while_a_piece_was_on_its_way_does_not_read_on_without_it() {
    let session = asking(|ask| match ask {
        Ask::Open { .. } => Some(vec![(Answer::Opened(file(3 * MOST_BODY)), Vec::new())]),
        _ => Some(Vec::new()), // not yet
    });
    let open = OpenFile::new(&session, b"/x".into(), &mut patient()).unwrap();
    assert!(matches!(open.next(&mut || false), Err(FilesError::Interrupted)));
    assert!(matches!(open.next(&mut patient()), Err(FilesError::Broken)));
}

#[test]
fn who_left_while_bytes_were_on_their_way_does_not_commit_the_rest() {
    let session = asking(|ask| match ask {
        Ask::Write { .. } => Some(Vec::new()),
        _ => Some(vec![(Answer::Done, Vec::new())]),
    });
    let new = NewFile::new(&session, b"/x".into(), false, &mut patient()).unwrap();
    let bytes = vec![1; 8 * MOST_BODY as usize];
    assert!(matches!(new.write(&bytes, &mut || false), Err(FilesError::Interrupted)));
    assert!(matches!(new.write(b"more", &mut patient()), Err(FilesError::Broken)));
    assert!(matches!(new.commit(&mut patient()), Err(FilesError::Broken)));
}

#[test]
fn what_was_damaged_on_the_way_is_not_believed() {
    let session = asking(|ask| {
        let answer = match ask {
            Ask::Open { .. } => Answer::Opened(file(3)),
            Ask::Read { .. } => Answer::Data { digest: Some(*blake3::hash(b"one").as_bytes()) },
            _ => Answer::Done,
        };
        let body = if matches!(answer, Answer::Data { .. }) { b"two".to_vec() } else { Vec::new() };
        Some(vec![(answer, body)])
    });
    let open = OpenFile::new(&session, b"/x".into(), &mut patient()).unwrap();
    assert!(open.next(&mut patient()).unwrap_err().to_string().contains("not what was sent"));
}

#[test]
fn a_file_that_was_not_taken_is_not_called_whole() {
    for lie in [Answer::Found(None), Answer::Data { digest: None }] {
        let session = asking(move |ask| {
            let answer = if matches!(ask, Ask::Commit { .. }) { lie.clone() } else { Answer::Done };
            Some(vec![(answer, Vec::new())])
        });
        let new = NewFile::new(&session, b"/x".into(), true, &mut patient()).unwrap();
        new.write(&vec![1; 10 << 20], &mut patient()).unwrap();
        assert!(new.commit(&mut patient()).is_err());
    }
}

#[test]
fn answers_that_nobody_asked_for_end_the_link() {
    let session = asking(|_| Some(vec![(Answer::Done, Vec::new()); MOST_AHEAD + 2]));
    let _ = session.ask(&Ask::Settle { handle: 0 }, &mut patient());
    let mut patient = patient();
    while !session.is_closed() {
        assert!(patient(), "it goes on");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(matches!(session.ask(&Ask::Settle { handle: 0 }, &mut patient), Err(FilesError::Lost(_))));
}

#[test]
fn who_waits_is_told_when_the_other_end_leaves() {
    let session = asking(|_| None);
    assert!(matches!(session.ask(&Ask::Settle { handle: 0 }, &mut patient()), Err(FilesError::Lost(_))));
}

#[test]
fn an_executor_of_another_version_or_none_at_all_is_told_apart() {
    let other = Answer::Offer { phalanx: "9.9\x1b[31m".to_owned() };
    let error = session(other, |_| None).err().unwrap().to_string();
    assert!(error.contains("runs phalanx 9.9") && !error.contains('\x1b'), "{error}");
    assert!(session(Answer::Done, |_| None).is_err());
    let steering = Answer::Failed { why: phalanx_core::wire::files::Why::Other, reason: "\x1b]0;title\x07".to_owned() };
    assert!(!session(steering, |_| None).err().unwrap().to_string().contains('\x1b'));
}

#[test]
fn what_is_dropped_is_closed_there_and_nobody_waits_for_that() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let session = asking(move |ask| {
        noted.lock().unwrap().push(ask.clone());
        let answer =
            if matches!(ask, Ask::Open { .. }) { Answer::Opened(file(100 << 20)) } else { return Some(Vec::new()) };
        Some(vec![(answer, Vec::new())])
    });
    let open = |_| OpenFile::new(&session, b"/x".into(), &mut patient()).unwrap();
    let opened: Vec<_> = (0..MOST_AHEAD + 4).map(open).collect();
    drop(opened); // nothing is answered any more: this would wait for ever
    let mut patient = patient();
    let closes = || asked.lock().unwrap().iter().filter(|ask| matches!(ask, Ask::Close { .. })).count();
    while closes() < MOST_AHEAD {
        assert!(patient(), "{} were closed", closes());
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(closes(), MOST_AHEAD, "the others as soon as there is room");
}

#[test]
fn opening_can_be_given_up_at_once() {
    let authority = Authority::create().unwrap();
    let member = Member::parse(&authority.issue(Role::User, "ada").unwrap(), Role::User).unwrap();
    let listener = Listener::bind("127.0.0.1:0").unwrap(); // takes the connection and says nothing
    let address = listener.address().unwrap().to_string().parse().unwrap();
    let (to, mut asked) = (Reach { address, dialler: member.into(), policy: Policy::default(), level: None }, 0);
    let left = Session::open(to, &mut || {
        asked += 1;
        asked < 3
    });
    assert!(matches!(left, Err(FilesError::Interrupted)));
    assert_eq!(asked, 3);
}
