//! An executor that exports a folder, and a user who asks about files but means no good.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that fails says so")]

use crate::options;
use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::files::{Answer, Ask, Dated, MOST_AHEAD, MOST_BODY, MOST_FOUND, MOST_OPEN, Why};
use phalanx_core::wire::transfer::Filter;
use phalanx_core::wire::{decode, encode};
use phalanx_net::dial::dial;
use phalanx_net::identity::{Authority, Client, Member, Role};
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_net::tls::choose;
use phalanx_node::executor::{Executor, Options};
use phalanx_node::transfer::Exports;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

const O_NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;
const PATIENCE: Duration = Duration::from_secs(60);

struct Lab {
    executor: Executor,
    user: Client,
    other: Client,
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Lab {
        let authority = Authority::create().unwrap();
        let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["data", "secret"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("secret/precious"), "precious").unwrap();
        let options = Options {
            accepted: vec!["mallory".into()],
            exports: Exports::parse(&[format!("{}:rw", folder.path().join("data").display())]).unwrap(),
            ..options()
        };
        let executor =
            Executor::start("127.0.0.1:0", member(Role::Executor, "labpc"), options, phalanx_node::log::Log::nowhere())
                .unwrap();
        let client = |name| member(Role::User, name).client_of(Role::Executor).unwrap();
        Lab { executor, user: client("mallory"), other: client("eve"), folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("data").join(name)
    }

    fn reach(&self, who: &Client, said: Preamble, level: Level) -> io::Result<Peer> {
        let mut socket = dial(&self.executor.address().into(), PATIENCE)?.socket;
        let mut timed = socket.until(Instant::now() + PATIENCE);
        Preamble::Files.write(&mut timed)?;
        let levels = |_| Ok::<_, String>(Levels::all(level));
        let shaken = choose(who.connect().unwrap(), levels, &said.bytes(), &mut timed)?;
        let (link, reader) = Link::new(socket, Some(shaken), MOST_BODY)?;
        Ok(Peer { link, reader, heard: VecDeque::new() })
    }

    fn user(&self) -> Peer {
        let mut peer = self.reach(&self.user, Preamble::Files, Level::Private).unwrap();
        assert!(matches!(peer.hear(), Some(Answer::Offer { .. })));
        peer
    }
}

struct Peer {
    link: Arc<Link>,
    reader: Reader,
    heard: VecDeque<Answer>,
}

impl Peer {
    fn tell(&self, ask: &Ask, body: Vec<u8>) {
        let body = if body.is_empty() { Vec::new() } else { vec![body.into()] };
        let _ =
            self.link.send(Mark::None, encode(ask, body.iter().map(|it: &bytes::Bytes| it.len() as u64).sum()), body);
    }

    fn ask(&mut self, ask: &Ask) -> Answer {
        self.tell(ask, Vec::new());
        self.hear().expect("it goes on")
    }

    /// The next answer but beats; none: the link has ended.
    fn hear(&mut self) -> Option<Answer> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            while let Some(answer) = self.heard.pop_front() {
                if answer != Answer::Beat {
                    return Some(answer);
                }
            }
            let heard = &mut self.heard;
            let polled = self.reader.poll(Duration::from_millis(100), &mut |frame| {
                heard.push_back(decode(&frame.header).unwrap());
            });
            self.tell(&Ask::Beat, Vec::new()); // it is not this end's silence that ends the link
            if polled.is_err() && self.heard.is_empty() {
                return None;
            }
        }
        panic!("neither a word nor an end");
    }

    fn is_cut_off(&mut self) -> bool {
        loop {
            if self.hear().is_none() {
                return true;
            }
        }
    }
}

fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    path.as_ref().as_os_str().as_encoded_bytes().to_vec()
}

fn remove(lab: &Lab, names: &[&str]) -> Ask {
    Ask::Remove { folder: bytes(lab.at("")), names: names.iter().map(bytes).collect(), all: true }
}

#[test]
fn who_is_not_accepted_hears_that_and_who_says_another_thing_nothing() {
    let lab = Lab::new();
    let mut eve = lab.reach(&lab.other, Preamble::Files, Level::Private).unwrap();
    let told = eve.hear();
    assert!(matches!(told, Some(Answer::Failed { why: Why::Denied, .. })), "{told:?}");
    assert!(eve.is_cut_off());
    let swapped = lab.reach(&lab.user, Preamble::Transfer, Level::Private);
    assert!(swapped.map_or(true, |mut peer| peer.is_cut_off()), "the keys are bound to what was said");
    let weak = lab.reach(&lab.user, Preamble::Files, Level::Clear);
    assert!(weak.map_or(true, |mut peer| peer.is_cut_off()), "clear is not offered");
}

#[test]
fn what_is_no_question_ends_the_link() {
    let lab = Lab::new();
    let mut peer = lab.user();
    let mut start = encode(&Ask::Beat, 0);
    *start.last_mut().unwrap() = 0xff;
    peer.link.send(Mark::None, start, Vec::new()).unwrap();
    assert!(peer.is_cut_off());
    let mut peer = lab.user();
    peer.tell(&Ask::Write { handle: 0 }, vec![0; MOST_BODY as usize + 1]);
    assert!(peer.is_cut_off());
}

#[test]
fn too_many_questions_at_once_end_the_link() {
    let lab = Lab::new();
    fs::write(lab.at("big"), vec![0; 64 << 20]).unwrap();
    let mut peer = lab.user();
    let ask = Ask::Digests { folder: bytes(lab.at("")), names: vec![b"big".to_vec(); 50] };
    for _ in 0..=MOST_AHEAD + 1 {
        peer.tell(&ask, Vec::new());
    }
    assert!(peer.is_cut_off());
}

#[test]
fn listings_that_go_on_are_few() {
    let lab = Lab::new();
    for number in 0..=MOST_FOUND {
        fs::write(lab.at(&number.to_string()), "").unwrap();
    }
    let mut peer = lab.user();
    let filter = Filter::default;
    let list = |handle| Ask::List {
        handle,
        path: bytes(lab.at("")),
        depth: 0,
        filter: filter(),
        matching: Vec::new(),
        contents: false,
    };
    for handle in 0..8 {
        assert!(matches!(peer.ask(&list(handle)), Answer::Page { more: true, .. }), "{handle}");
    }
    assert!(matches!(peer.ask(&list(8)), Answer::Failed { .. }));
    assert_eq!(peer.ask(&Ask::Close { handle: 5 }), Answer::Done);
    assert!(matches!(peer.ask(&list(8)), Answer::Page { .. }));
}

#[test]
fn what_is_open_is_bounded_and_numbers_are_not_shared() {
    let lab = Lab::new();
    fs::write(lab.at("x"), "x").unwrap();
    let mut peer = lab.user();
    let open = |handle| Ask::Open { handle, path: bytes(lab.at("x")) };
    for handle in 0..MOST_OPEN as u32 {
        assert!(matches!(peer.ask(&open(handle)), Answer::Opened(_)), "{handle}");
    }
    assert!(matches!(peer.ask(&open(1000)), Answer::Failed { .. }));
    assert_eq!(peer.ask(&Ask::Close { handle: 5 }), Answer::Done);
    assert!(matches!(peer.ask(&open(6)), Answer::Failed { .. }), "it is taken");
    assert!(matches!(peer.ask(&open(5)), Answer::Opened(_)));
    assert!(matches!(lab.user().ask(&Ask::Read { handle: 6, offset: 0, length: 1 }), Answer::Failed { .. }));
}

#[test]
fn questions_that_lead_elsewhere_are_refused_and_the_link_goes_on() {
    let lab = Lab::new();
    symlink("../secret", lab.at("way")).unwrap();
    let mut peer = lab.user();
    let secret = bytes(lab.folder.path().join("secret/precious"));
    let over = [lab.at("../secret/precious"), lab.at("way/precious"), PathBuf::from("data/x"), PathBuf::from("/")];
    for path in over.iter().map(bytes).chain([secret, Vec::new(), vec![0], vec![b'/'; 1 << 16]]) {
        let list = Ask::List {
            handle: 1,
            path: path.clone(),
            depth: 0,
            filter: Filter::default(),
            matching: Vec::new(),
            contents: false,
        };
        let asks = [
            Ask::Open { handle: 1, path: path.clone() },
            Ask::Create { handle: 1, path: path.clone(), new: false },
            Ask::Rename { from: path.clone(), to: bytes(lab.at("x")) },
            list,
        ];
        for ask in asks {
            assert!(matches!(peer.ask(&ask), Answer::Failed { .. }), "{ask:?}");
        }
    }
    for name in ["../secret/precious", "/etc/passwd", "a/../../secret/precious", "."] {
        assert!(matches!(peer.ask(&remove(&lab, &[name])), Answer::Failed { .. }), "{name}");
    }
    let Answer::Tried { done: 0, failed: 1, .. } = peer.ask(&remove(&lab, &["way/precious"])) else {
        panic!("it leads through a link")
    };
    assert!(matches!(peer.ask(&Ask::Look { path: bytes(lab.at("way")), follows: true }), Answer::Failed { .. }));
    assert_eq!(fs::read_to_string(lab.folder.path().join("secret/precious")).unwrap(), "precious");
}

#[test]
fn patterns_that_would_take_for_ever_do_not() {
    let lab = Lab::new();
    fs::write(lab.at(&"a".repeat(200)), "").unwrap();
    let mut peer = lab.user();
    let hostile = format!("{}b", "*a".repeat(300));
    let filter = Filter { exclude: vec![hostile.clone(); 100], ..Filter::default() };
    let list =
        Ask::List { handle: 1, path: bytes(lab.at("")), depth: 0, filter, matching: vec![hostile], contents: false };
    assert!(matches!(peer.ask(&list), Answer::Page { count: 0, more: false }));
    assert!(matches!(
        peer.ask(&Ask::Look { path: bytes(lab.at("no such")), follows: true }),
        Answer::Found(None) | Answer::Failed { why: Why::Missing, .. }
    ));
}

#[test]
fn links_that_come_and_go_lead_no_removal_out() {
    let lab = Lab::new();
    let (stop, secret) = (AtomicBool::new(false), lab.folder.path().join("secret"));
    let until = Instant::now() + Duration::from_secs(60); // also if an assertion fails below
    thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                let _ = fs::create_dir_all(lab.at("a/b"));
                let _ = fs::write(lab.at("a/b/precious"), "x");
                let _ = fs::rename(lab.at("a"), lab.at("moved"));
                let _ = symlink(&secret, lab.at("a"));
                let _ = fs::remove_file(lab.at("a"));
                let _ = fs::rename(lab.at("moved"), lab.at("a"));
            }
        });
        let mut peer = lab.user();
        for round in 0..500 {
            let names: &[&str] = if round % 2 == 0 { &["a"] } else { &["a/precious", "a/b/precious", "moved"] };
            assert!(matches!(peer.ask(&remove(&lab, names)), Answer::Tried { .. }));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(secret.join("precious")).unwrap(), "precious");
}

#[test]
fn what_a_copy_goes_on_from_is_not_renamed_into_its_place() {
    let (lab, reserved) = (Lab::new(), ".big.phalanx-part");
    fs::write(lab.at("foreign"), b"foreign").unwrap();
    let mut peer = lab.user();
    let rename = Ask::Rename { from: bytes(lab.at("foreign")), to: bytes(lab.at(reserved)) };
    assert!(matches!(peer.ask(&rename), Answer::Failed { .. }));
    assert!(lab.at("foreign").exists() && !lab.at(reserved).exists());
}

#[test]
#[cfg(unix)]
fn times_before_1970_are_set_and_end_nothing() {
    let lab = Lab::new();
    fs::write(lab.at("old"), b"old").unwrap();
    let mut peer = lab.user();
    let times = vec![Dated { time: (-5, 500_000_000), seen: None }];
    let ask = Ask::SetTimes { folder: bytes(lab.at("")), names: vec![b"old".into()], times };
    let answer = peer.ask(&ask);
    let set = fs::metadata(lab.at("old")).unwrap().modified().unwrap();
    assert_eq!(set, std::time::UNIX_EPOCH - Duration::from_millis(4500), "{answer:?}");
}

#[test]
fn questions_are_altered_by_nobody_even_where_the_network_is_trusted() {
    let lab = Lab::new();
    for level in [Level::Clear, Level::Authenticated] {
        let weak = lab.reach(&lab.user, Preamble::Files, level);
        assert!(weak.map_or(true, |mut peer| peer.is_cut_off()), "{level}");
    }
    assert!(lab.reach(&lab.user, Preamble::Files, Level::Safe).is_ok_and(|mut peer| peer.hear().is_some()));
}

#[test]
fn a_file_that_was_changed_after_it_was_compared_keeps_its_time() {
    let lab = Lab::new();
    fs::write(lab.at("x"), b"one").unwrap();
    fs::File::options()
        .write(true)
        .open(lab.at("x"))
        .unwrap()
        .set_modified(UNIX_EPOCH + Duration::from_secs(1000))
        .unwrap();
    let mut peer = lab.user();
    let mut set = |seen| {
        let times = vec![Dated { time: (5, 0), seen: Some(seen) }];
        peer.ask(&Ask::SetTimes { folder: bytes(lab.at("")), names: vec![b"x".into()], times })
    };
    for seen in [(4, (1000, 0)), (3, (1000, 1)), (3, (0, 0))] {
        assert!(matches!(set(seen), Answer::Tried { done: 0, failed: 1, .. }), "{seen:?}");
    }
    assert!(matches!(set((3, (1000, 0))), Answer::Tried { done: 1, failed: 0, .. }));
    assert_eq!(fs::metadata(lab.at("x")).unwrap().modified().unwrap(), UNIX_EPOCH + Duration::from_secs(5));
}

#[test]
fn failures_that_are_told_fit_one_answer() {
    let lab = Lab::new();
    let mut peer = lab.user();
    let name = |number: usize| format!("{number}{}", format!("/{}", "x".repeat(250)).repeat(10)).into_bytes();
    let ask = Ask::Remove { folder: bytes(lab.at("")), names: (0..300).map(name).collect(), all: true };
    let Answer::Tried { done: 0, failed: 300, failures } = peer.ask(&ask) else { panic!("it is told") };
    assert!((50..300).contains(&failures.len()), "some of them: {}", failures.len());
}

#[test]
fn pipes_are_not_opened_to_be_looked_at() {
    let lab = Lab::new();
    let made = std::process::Command::new("mkfifo").arg(lab.at("pipe")).status().unwrap();
    assert!(made.success());
    let pipe = lab.at("pipe");
    let (said, writing) = std::sync::mpsc::channel();
    let (begins, began) = std::sync::mpsc::channel();
    thread::spawn(move || {
        begins.send(()).unwrap();
        said.send(fs::File::options().write(true).open(pipe).map(drop)) // waits for a reader
    });
    began.recv_timeout(PATIENCE).unwrap();
    let mut peer = lab.user();
    for _ in 0..20 {
        assert!(matches!(peer.ask(&Ask::Open { handle: 1, path: bytes(lab.at("pipe")) }), Answer::Failed { .. }));
    }
    assert!(writing.try_recv().is_err(), "nobody has opened its other end");
    // Open until the writer has met it, however late that comes.
    let reading = fs::File::options().read(true).custom_flags(O_NONBLOCK).open(lab.at("pipe")).unwrap();
    writing.recv_timeout(PATIENCE).unwrap().unwrap();
    drop(reading);
}
