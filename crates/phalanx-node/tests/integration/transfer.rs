//! An executor that exports a folder, and a peer that speaks the protocol but means no good.
#![expect(clippy::unwrap_used, reason = "a test that fails says so")]

use crate::options;
use phalanx_core::level::{Level, LevelSet, Levels, Mark};
use phalanx_core::transfer::{Chunking, PART, SPLIT};
use phalanx_core::wire::transfer::{
    Chunk, Compress, Direction, Entry, Filter, Kind, MOST_BODY, Message, Packed, RECORD, Record, Request, Share,
    Target, Totals, encode_chunk, encode_entry,
};
use phalanx_core::wire::{decode, encode};
use phalanx_net::blocks::Sealer;
use phalanx_net::dial::{Expected, dial};
use phalanx_net::identity::{Authority, Client, Issued, Member, Role};
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::Socket;
use phalanx_net::stream::{Outgoing, Protection};
use phalanx_net::tls::{Shaken, choose};
use phalanx_node::executor::{Executor, Options};
use phalanx_node::transfer::Exports;
use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// An executor and the folder that it exports, beside one that it does not.
struct Lab {
    executor: Executor,
    authority: Authority,
    client: Client,
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Lab {
        let authority = Authority::create().unwrap();
        let member = |role, name| member(&authority, role, name);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::create_dir(folder.path().join("secret")).unwrap();
        let options = Options {
            exports: Exports::parse(&[format!("{}:rw", folder.path().join("data").display())]).unwrap(),
            ..options()
        };
        let executor =
            Executor::start("127.0.0.1:0", member(Role::Executor, "labpc"), options, phalanx_node::log::Log::nowhere())
                .unwrap();
        let client = member(Role::User, "mallory").client_of(Role::Executor).unwrap();
        Lab { executor, authority, client, folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("data")
    }

    fn dial(&self) -> Socket {
        dial(&self.executor.address().into(), PATIENCE).unwrap().socket
    }

    /// A control link, after the executor's offer.
    fn reach(&self) -> Peer {
        let mut peer = self.reach_as(&self.client, Preamble::Transfer);
        assert!(matches!(peer.hear(), Some(Message::Offer { .. })));
        peer
    }

    fn reach_as(&self, client: &Client, preamble: Preamble) -> Peer {
        let dialled = dial(&self.executor.address().into(), PATIENCE).unwrap();
        let private = Levels::all(Level::Private);
        let introduced = dialled.introduce(preamble, Expected::Named(client, "labpc"), private, PATIENCE).unwrap();
        let (link, reader) = introduced.link(MOST_BODY).unwrap();
        Peer { link, reader, heard: VecDeque::new() }
    }

    /// Another executor shows a ticket; what it hears.
    fn show(&self, client: &Client, ticket: [u8; 16], level: Level) -> (Peer, Option<Message>) {
        let mut peer = self.reach_as(client, Preamble::Executor);
        assert!(matches!(peer.hear(), Some(Message::Offer { .. })));
        peer.tell(&Message::Show { ticket, level });
        let answer = peer.hear();
        (peer, answer)
    }

    /// The user expects the owner of a certificate to copy to `name`.
    fn expect(&self, name: &str, certificate: Vec<u8>) -> (Peer, [u8; 16]) {
        let mut user = self.reach();
        let Message::Begin(request) = request(self.data().join(name), Level::Private) else { unreachable!() };
        user.tell(&Message::Expect {
            levels: LevelSet::from(request.level),
            request,
            name: b"named".into(),
            certificate,
        });
        let Some(Message::Ticket { ticket }) = user.hear() else { panic!("no ticket") };
        (user, ticket)
    }

    /// A copy into the exported folder is begun.
    fn begin(&self, name: &str) -> (Peer, [u8; 12]) {
        let mut peer = self.reach();
        peer.tell(&request(self.data().join(name), Level::Private));
        let Some(Message::Begun { token }) = peer.hear() else { panic!("it was not begun") };
        (peer, token)
    }

    fn stream(&self, token: [u8; 12], number: u32) -> Outgoing {
        let preamble = Preamble::Stream { token, number };
        self.stream_of(preamble, preamble)
    }

    /// A stream whose preamble arrives as another than it was said.
    fn stream_of(&self, said: Preamble, arrives: Preamble) -> Outgoing {
        let (socket, shaken) = self.shake(said, arrives);
        Outgoing::new(socket, Some(shaken), Protection { level: Level::Private, checked: true }).unwrap()
    }

    fn shake(&self, said: Preamble, arrives: Preamble) -> (Socket, Shaken) {
        let mut socket = self.dial();
        let mut timed = socket.until(Instant::now() + PATIENCE);
        arrives.write(&mut timed).unwrap();
        let levels = |_| Ok::<_, String>(Levels::all(Level::Private));
        let shaken = choose(self.client.connect().unwrap(), levels, &said.bytes(), &mut timed).unwrap();
        (socket, shaken)
    }
}

fn member(authority: &Authority, role: Role, name: &str) -> Member {
    Member::parse(&authority.issue(role, name).unwrap(), role).unwrap()
}

fn request(path: PathBuf, level: Level) -> Message {
    request_of(Direction::Put, path, level)
}

fn request_of(direction: Direction, path: PathBuf, level: Level) -> Message {
    let path = path.into_os_string().into_encoded_bytes();
    let target = Target::Path { path, folder: false };
    let (checked, anew, threads, filter, limit) = (true, false, 2, Filter::default(), 0);
    Message::Begin(Request {
        direction,
        target,
        level,
        checked,
        anew,
        whole_file: false,
        compress: Compress::BySpeed,
        threads,
        filter,
        limit,
        share: None,
        fresh: false,
        copy: [0; 16],
        name: Vec::new(),
    })
}

struct Peer {
    link: Arc<Link>,
    reader: Reader,
    heard: VecDeque<Message>,
}

impl Peer {
    fn tell(&self, message: &Message) {
        let _ = self.link.send(Mark::None, encode(message, 0), Vec::new());
    }

    fn offer(&self, entries: &[Entry]) {
        let body = entries.iter().fold(Vec::new(), |body, entry| encode_entry(entry, body));
        let start = encode(&Message::Entries { count: entries.len() as u32 }, body.len() as u64);
        self.link.send(Mark::None, start, vec![body.into()]).unwrap();
        self.tell(&Message::AllEntries);
    }

    /// Offers, and waits until the other end wants it: blocks of what it has not heard of end the copy.
    fn agree_on(&mut self, entries: &[Entry]) {
        self.offer(entries);
        while !matches!(self.hear().expect("it wants it"), Message::Wanted { .. }) {}
    }

    /// The next message but beats; none: the link has ended.
    fn hear(&mut self) -> Option<Message> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            while let Some(message) = self.heard.pop_front() {
                if message != Message::Beat {
                    return Some(message);
                }
            }
            let heard = &mut self.heard;
            let polled = self.reader.poll(Duration::from_millis(100), &mut |frame| {
                heard.push_back(decode(&frame.header).unwrap());
            });
            self.tell(&Message::Beat); // it is not this end's silence that ends the link
            if polled.is_err() && self.heard.is_empty() {
                return None;
            }
        }
        panic!("neither a word nor an end");
    }

    fn hear_totals(&mut self) -> Totals {
        loop {
            if let Message::Done(totals) = self.hear().expect("it goes on") {
                return totals;
            }
        }
    }

    /// It is refused, or cut off.
    fn is_refused(&mut self) -> bool {
        loop {
            match self.hear() {
                None | Some(Message::Refused { .. }) => return true,
                Some(Message::Done(_) | Message::Begun { .. }) => return false,
                Some(_) => {}
            }
        }
    }
}

fn entry(parent: Option<u32>, name: &[u8], kind: Kind) -> Entry {
    Entry { parent, name: name.into(), kind, mode: Some(0o6777), modified: (0, 0), attributes: None }
}

fn root() -> Entry {
    entry(None, b"root", Kind::Folder)
}

/// One frame, sent to its end.
fn send(stream: &mut Outgoing, records: &[(Record, &[u8])]) {
    let bytes: Vec<u8> = records.iter().flat_map(|(record, data)| [&record.encode()[..], data].concat()).collect();
    send_bytes(stream, &bytes);
}

fn send_bytes(stream: &mut Outgoing, bytes: &[u8]) {
    stream.payload()[..bytes.len()].copy_from_slice(bytes);
    stream.seal(bytes.len()).unwrap();
    while !stream.send().unwrap() {
        std::thread::yield_now();
    }
}

fn all_of(entry: u32, data: &[u8]) -> (Record, &[u8]) {
    (Record { entry, offset: 0, length: data.len() as u32, settles: true, hole: false }, data)
}

#[test]
fn a_copy_by_hand_arrives_without_the_bits_that_let_it_run_as_somebody_else() {
    let lab = Lab::new();
    let (mut peer, token) = lab.begin("copy");
    peer.agree_on(&[root(), entry(Some(0), b"file", Kind::File { size: 3 })]);
    send(&mut lab.stream(token, 0), &[all_of(1, b"abc")]);
    assert_eq!(peer.hear_totals().files, 1);
    let file = lab.data().join("copy/file");
    assert_eq!(fs::read(&file).unwrap(), b"abc");
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&file).unwrap()) & 0o7777, 0o777);
}

#[test]
fn compressed_frames_that_are_not_what_they_announce_end_the_copy() {
    let all_of_it = [&all_of(1, b"abc").0.encode()[..], b"abc"].concat();
    let mut packed = [0; 100];
    let count = zstd_safe::compress(&mut packed[..], &all_of_it, 3).unwrap();
    let good = [&Packed { length: all_of_it.len() as u32 }.encode()[..], &packed[..count]].concat();
    let announcing = |length| [&Packed { length }.encode()[..], &good[RECORD..]].concat();
    let is_taken = |payload: &[u8]| {
        let lab = Lab::new();
        let (mut peer, token) = lab.begin("copy");
        peer.agree_on(&[root(), entry(Some(0), b"file", Kind::File { size: 3 })]);
        send_bytes(&mut lab.stream(token, 0), payload);
        if payload == good {
            assert_eq!(peer.hear_totals().files, 1);
            return true;
        }
        !peer.is_refused()
    };
    assert!(is_taken(&good));
    let bomb = [&Packed { length: 262_144 }.encode()[..], &zstd_of_zeros(64 << 20)[..]].concat();
    for hostile in [&announcing(20)[..], &announcing(18), &announcing(262_145), &good[..good.len() - 1], &bomb] {
        assert!(!is_taken(hostile), "{hostile:?}");
    }
}

fn zstd_of_zeros(count: usize) -> Vec<u8> {
    let mut packed = vec![0; 64 << 10];
    let length = zstd_safe::compress(&mut packed[..], &vec![0; count], 19).unwrap();
    packed.truncate(length);
    packed
}

#[test]
fn names_that_lead_out_end_the_copy() {
    let lab = Lab::new();
    for name in [&b".."[..], b"../secret/x", b"/etc/x", b"a/b", b"a\0b", b"", b"."] {
        let (mut peer, _token) = lab.begin("copy");
        peer.offer(&[root(), entry(Some(0), name, Kind::File { size: 1 })]);
        assert!(peer.is_refused(), "{name:?}");
    }
    let (mut peer, _token) = lab.begin("copy");
    peer.offer(&[root(), entry(Some(0), b"a", Kind::File { size: 1 }), entry(Some(1), b"b", Kind::Folder)]);
    assert!(peer.is_refused(), "a file is no folder");
    assert_eq!(fs::read_dir(lab.folder.path().join("secret")).unwrap().count(), 0);
}

#[test]
#[cfg(unix)]
fn links_that_lie_in_the_way_are_not_followed() {
    let lab = Lab::new();
    let (data, secret) = (lab.data(), lab.folder.path().canonicalize().unwrap().join("secret"));
    fs::create_dir(data.join("copy")).unwrap();
    std::os::unix::fs::symlink(&secret, data.join("copy/folder")).unwrap();
    std::os::unix::fs::symlink(secret.join("new"), data.join("copy/file")).unwrap();
    std::os::unix::fs::symlink(secret.join("new"), data.join("copy/.big.phalanx-part")).unwrap();
    let (mut peer, token) = lab.begin("copy");
    peer.agree_on(&[
        root(),
        entry(Some(0), b"folder", Kind::Folder),
        entry(Some(1), b"inside", Kind::File { size: 1 }),
        entry(Some(0), b"file", Kind::File { size: 1 }),
        entry(Some(0), b"big", Kind::File { size: 1 << 20 }),
    ]);
    let mut stream = lab.stream(token, 0);
    let of_big = Record { entry: 4, offset: 0, length: 1, settles: false, hole: false };
    send(&mut stream, &[all_of(2, b"x"), all_of(3, b"y"), (of_big, b"z")]);
    let totals = peer.hear_totals();
    assert_eq!((totals.files, totals.failed), (1, 3), "the file takes the link's place");
    assert!(fs::symlink_metadata(data.join("copy/file")).unwrap().is_file());
    assert_eq!(fs::read_dir(secret).unwrap().count(), 0);
}

#[test]
fn blocks_of_what_was_not_offered_end_the_copy() {
    let lab = Lab::new();
    let small = |offset, length: u32| Record { entry: 1, offset, length, settles: false, hole: false };
    let wrong: [(Record, &[u8]); 4] = [
        (Record { entry: 9, ..small(0, 1) }, b"x"),
        (Record { entry: 0, ..small(0, 1) }, b"x"),
        (small(3, 1), b"x"),
        (small(u64::MAX - 1, 1), b"x"),
    ];
    for (record, data) in wrong {
        let (mut peer, token) = lab.begin("copy");
        peer.agree_on(&[root(), entry(Some(0), b"file", Kind::File { size: 3 })]);
        send(&mut lab.stream(token, 0), &[(record, data)]);
        assert!(peer.is_refused(), "{record:?}");
        assert!(!lab.data().join("copy/file").exists());
    }
    let (mut peer, token) = lab.begin("copy");
    peer.agree_on(&[root(), entry(Some(0), b"file", Kind::File { size: 3 })]);
    let mut stream = lab.stream(token, 0);
    stream.payload()[..RECORD].fill(0xff);
    stream.seal(RECORD).unwrap();
    assert!(stream.send().unwrap());
    assert!(peer.is_refused(), "no record");
}

#[test]
fn what_was_altered_on_the_way_ends_the_stream_and_is_taken_over_another() {
    let lab = Lab::new();
    let (mut peer, token) = lab.begin("copy");
    peer.agree_on(&[root(), entry(Some(0), b"file", Kind::File { size: 3 })]);
    let preamble = Preamble::Stream { token, number: 0 };
    let (mut socket, shaken) = lab.shake(preamble, preamble);
    let mut sealer = Sealer::new(Some(shaken.into_contexts().0), Level::Private..=Level::Private);
    let (record, data) = all_of(1, b"abc");
    let (length, mut bytes) = (RECORD as u32 + 3, Vec::new());
    let frame = [&length.to_le_bytes()[..], &record.encode(), data];
    sealer.append(Level::Private, frame.into_iter(), &mut bytes).unwrap();
    bytes[30] ^= 1;
    socket.write_all(&bytes).unwrap();
    loop {
        match peer.hear() {
            Some(Message::Lost { stream: 0 }) => break,
            Some(Message::Wanted { .. } | Message::Taken { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    send(&mut lab.stream(token, 1), &[all_of(1, b"abc")]);
    assert_eq!(peer.hear_totals().files, 1);
}

#[test]
fn streams_without_the_token_or_of_another_user_are_not_taken() {
    let lab = Lab::new();
    let (_peer, token) = lab.begin("copy");
    let try_stream = |client: &Client, token, level| {
        let mut socket = lab.dial();
        let mut timed = socket.until(Instant::now() + PATIENCE);
        let preamble = Preamble::Stream { token, number: 0 };
        preamble.write(&mut timed).unwrap();
        let levels = |_: [LevelSet; 3]| Ok::<_, String>(Levels::all(level));
        choose(client.connect().unwrap(), levels, &preamble.bound(), &mut timed)
    };
    assert!(try_stream(&lab.client, [0; 12], Level::Private).is_err());
    assert!(try_stream(&lab.client, token, Level::Private).is_ok());
    let stranger = Authority::create().unwrap().issue(Role::User, "mallory").unwrap();
    let stranger = Member::parse(&stranger, Role::User).unwrap().client_of(Role::Executor).unwrap();
    assert!(try_stream(&stranger, token, Level::Private).is_err());
}

#[test]
fn a_stream_that_somebody_on_the_way_gives_to_another_copy_carries_nothing_into_it() {
    let lab = Lab::new();
    let (mut one, token) = lab.begin("one");
    let (_other, another) = lab.begin("another");
    one.agree_on(&[root(), entry(Some(0), b"file", Kind::File { size: 3 })]);
    let said = Preamble::Stream { token: another, number: 0 };
    let _swapped = lab.stream_of(said, Preamble::Stream { token, number: 0 }); // its handshake is refused
    send(&mut lab.stream(token, 0), &[all_of(1, b"abc")]);
    assert_eq!(one.hear_totals().files, 1);
    assert_eq!(fs::read(lab.data().join("one/file")).unwrap(), b"abc");
}

#[test]
fn a_user_has_a_share_of_the_copies_at_a_time() {
    let lab = Lab::new();
    let mut peers: Vec<_> = (0..16).map(|number| lab.begin(&number.to_string())).collect();
    let mut one_more = lab.reach();
    one_more.tell(&request(lab.data().join("more"), Level::Private));
    assert!(one_more.is_refused());
    peers.pop().unwrap().0.link.close();
    let until = Instant::now() + PATIENCE;
    loop {
        let mut peer = lab.reach();
        peer.tell(&request(lab.data().join("again"), Level::Private));
        if matches!(peer.hear(), Some(Message::Begun { .. })) {
            break;
        }
        assert!(Instant::now() < until, "a place was free");
    }
}

#[test]
fn failures_of_what_was_not_offered_end_the_copy_and_no_other() {
    let lab = Lab::new();
    fs::write(lab.data().join("file"), b"abc").unwrap();
    for entry in [1, u32::MAX] {
        let mut peer = lab.reach();
        peer.tell(&request_of(Direction::Get, lab.data().join("file"), Level::Private));
        assert!(matches!(peer.hear(), Some(Message::Begun { .. })));
        while peer.hear() != Some(Message::AllEntries) {}
        peer.tell(&Message::Failed { entry, reason: "no".into() });
        assert!(peer.is_refused(), "{entry}");
    }
}

#[test]
#[cfg(unix)]
fn what_cannot_be_read_at_the_executor_is_told() {
    let lab = Lab::new();
    make_pipe(&lab.data().join("pipe"));
    let mut peer = lab.reach();
    peer.tell(&request_of(Direction::Get, lab.data(), Level::Private));
    loop {
        match peer.hear().expect("it goes on") {
            Message::Skipped { path, .. } => break assert!(path.ends_with(b"pipe")),
            Message::AllEntries => panic!("it was not told"),
            _ => {}
        }
    }
}

#[cfg(unix)]
fn make_pipe(path: &std::path::Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn requests_beyond_what_is_exported_are_refused_and_so_is_a_level_that_is_not_taken() {
    let lab = Lab::new();
    let secret = lab.folder.path().join("secret");
    for wrong in [
        request(secret.join("x"), Level::Private),
        request(lab.data().join("../secret/x"), Level::Private),
        request("data/x".into(), Level::Private),
        request(lab.data().join("x"), Level::Clear),
        Message::AllEntries,
        Message::Done(Totals::default()),
    ] {
        let mut peer = lab.reach();
        peer.tell(&wrong);
        assert!(peer.is_refused(), "{wrong:?}");
    }
}

#[test]
fn messages_that_are_not_for_a_receiving_end_end_the_copy() {
    let lab = Lab::new();
    let offer = Message::Offer { phalanx: String::new(), levels: LevelSet::EVERY };
    for wrong in
        [Message::Done(Totals::default()), Message::Wanted { count: 9, there: Vec::new(), older: Vec::new() }, offer]
    {
        let (mut peer, _token) = lab.begin("copy");
        peer.tell(&wrong);
        assert!(peer.is_refused(), "{wrong:?}");
    }
    let (mut peer, _token) = lab.begin("copy");
    let start = encode(&Message::Entries { count: 1000 }, 3);
    peer.link.send(Mark::None, start, vec![vec![1, 2, 3].into()]).unwrap();
    assert!(peer.is_refused());
}

#[test]
fn a_ticket_is_good_once_and_for_the_executor_that_the_user_named() {
    let lab = Lab::new();
    let [named, other] = ["named", "other"].map(|name| member(&lab.authority, Role::Executor, name));
    let certificate = named.own().certificate.to_vec();
    let [named, other] = [named, other].map(|member| member.client_of(Role::Executor).unwrap());
    let (_user, ticket) = lab.expect("copy", certificate);
    assert!(matches!(lab.show(&other, ticket, Level::Private).1, Some(Message::Refused { .. })), "not named");
    assert!(matches!(lab.show(&named, [7; 16], Level::Private).1, Some(Message::Refused { .. })), "no ticket");
    assert!(
        matches!(lab.show(&named, ticket, Level::Clear).1, Some(Message::Refused { .. })),
        "less than the user takes"
    );
    let (_sends, begun) = lab.show(&named, ticket, Level::Private);
    assert!(matches!(begun, Some(Message::Begun { .. })), "{begun:?}");
    assert!(matches!(lab.show(&named, ticket, Level::Private).1, Some(Message::Refused { .. })), "spent");
}

#[test]
fn a_ticket_is_good_for_the_executor_that_was_renewed_meanwhile() {
    let lab = Lab::new();
    let text = lab.authority.issue(Role::Executor, "named").unwrap();
    let (end, day) = (text.find("-----END CERTIFICATE-----").unwrap() + 26, Duration::from_secs(24 * 3600));
    let issued = Issued::all(&text[..end], &lab.authority.to_pem(None).unwrap()).unwrap();
    let certificate = lab.authority.renew(&issued[0], Some(day)).unwrap().certificate.to_vec();
    let named = Member::parse(&text, Role::Executor).unwrap().client_of(Role::Executor).unwrap();
    let (_user, ticket) = lab.expect("copy", certificate);
    let (_sends, begun) = lab.show(&named, ticket, Level::Private);
    assert!(matches!(begun, Some(Message::Begun { .. })), "{begun:?}");
}

#[test]
fn the_executor_that_sends_chooses_neither_the_name_nor_what_is_left_out() {
    let lab = Lab::new();
    let named = member(&lab.authority, Role::Executor, "named");
    let certificate = named.own().certificate.to_vec();
    let named = named.client_of(Role::Executor).unwrap();
    let (_user, ticket) = lab.expect("", certificate.clone());
    let (mut sends, begun) = lab.show(&named, ticket, Level::Private);
    assert!(matches!(begun, Some(Message::Begun { .. })), "{begun:?}");
    sends.offer(&[entry(None, b".bashrc", Kind::File { size: 0 })]);
    assert_eq!(sends.hear_totals().files, 1);
    assert!(lab.data().join("named").exists() && !lab.data().join(".bashrc").exists());

    let Message::Begin(mut request) = request(lab.data().join("copy"), Level::Private) else { unreachable!() };
    request.filter.exclude = vec![".git/".into()];
    let mut user = lab.reach();
    user.tell(&Message::Expect { levels: LevelSet::from(request.level), request, name: b"copy".into(), certificate });
    let Some(Message::Ticket { ticket }) = user.hear() else { panic!("no ticket") };
    let (mut sends, _) = lab.show(&named, ticket, Level::Private);
    let inside = entry(Some(1), b"config", Kind::File { size: 0 });
    sends.offer(&[root(), entry(Some(0), b".git", Kind::Folder), inside, entry(Some(0), b"x", Kind::File { size: 0 })]);
    let totals = sends.hear_totals();
    assert_eq!((totals.files, totals.failed), (1, 2));
    assert!(lab.data().join("copy/x").exists() && !lab.data().join("copy/.git").exists());
}

#[test]
fn a_user_is_no_executor_and_an_executor_begins_nothing_itself() {
    let lab = Lab::new();
    let mut peer = lab.reach_as(&lab.client, Preamble::Executor);
    assert_eq!(peer.hear(), None, "a user has no ticket to show");
    let executor = member(&lab.authority, Role::Executor, "pc").client_of(Role::Executor).unwrap();
    assert_eq!(lab.reach_as(&executor, Preamble::Transfer).hear(), None, "an executor is no user");
    let mut peer = lab.reach_as(&executor, Preamble::Executor);
    assert!(matches!(peer.hear(), Some(Message::Offer { .. })));
    peer.tell(&request(lab.data().join("copy"), Level::Private));
    assert_eq!(peer.hear(), None, "its first word is its ticket");
}

#[test]
fn what_a_ticket_began_ends_with_its_users_link() {
    let lab = Lab::new();
    let named = member(&lab.authority, Role::Executor, "named");
    let certificate = named.own().certificate.to_vec();
    let named = named.client_of(Role::Executor).unwrap();
    let (user, ticket) = lab.expect("copy", certificate.clone());
    let (mut sends, begun) = lab.show(&named, ticket, Level::Private);
    assert!(matches!(begun, Some(Message::Begun { .. })), "{begun:?}");
    user.link.close();
    assert_eq!(sends.hear(), None);
    let (user, ticket) = lab.expect("copy", certificate);
    user.link.close();
    let (mut sends, answer) = lab.show(&named, ticket, Level::Private);
    match answer {
        Some(Message::Begun { .. }) => {
            assert_eq!(sends.hear(), None, "it may come before it is known that the user left")
        }
        answer => assert!(matches!(answer, Some(Message::Refused { .. })), "{answer:?}"),
    }
}

#[test]
fn nobody_is_expected_where_nothing_is_exported_or_to_fetch() {
    let lab = Lab::new();
    for message in [
        request(lab.folder.path().join("secret/x"), Level::Private),
        request_of(Direction::Get, lab.data(), Level::Private),
    ] {
        let Message::Begin(request) = message else { unreachable!() };
        let mut user = lab.reach();
        user.tell(&Message::Expect {
            levels: LevelSet::from(request.level),
            request,
            name: b"x".into(),
            certificate: Vec::new(),
        });
        assert!(user.is_refused());
    }
}

#[test]
fn the_executor_that_receives_tells_the_user_what_came() {
    let lab = Lab::new();
    let named = member(&lab.authority, Role::Executor, "named");
    let certificate = named.own().certificate.to_vec();
    let named = named.client_of(Role::Executor).unwrap();
    let (mut user, ticket) = lab.expect("copy", certificate);
    let (mut sends, _) = lab.show(&named, ticket, Level::Private);
    sends.offer(&[entry(None, b"file", Kind::File { size: 0 })]);
    let totals = sends.hear_totals();
    sends.link.close();
    assert_eq!(user.hear(), Some(Message::Arrived { level: Level::Private, totals }));
}

#[test]
fn a_user_who_is_about_to_say_what_it_wants_is_waited_for() {
    let lab = Lab::new();
    let mut user = lab.reach();
    let until = Instant::now() + Duration::from_secs(7); // longer than for one that says nothing
    while Instant::now() < until {
        user.tell(&Message::Beat);
        std::thread::sleep(Duration::from_millis(200));
    }
    user.tell(&request(lab.data().join("copy"), Level::Private));
    assert!(matches!(user.hear(), Some(Message::Begun { .. })));
}

#[test]
fn shares_and_limits_that_are_none_are_refused() {
    let lab = Lab::new();
    let wrong: [fn(&mut Request); 3] = [
        |request| request.share = Some(Share { index: 2, count: 2 }),
        |request| request.share = Some(Share { index: 0, count: 17 }),
        |request| request.limit = 1,
    ];
    for make in wrong {
        let Message::Begin(mut request) = request(lab.data().join("copy"), Level::Private) else { unreachable!() };
        make(&mut request);
        let mut user = lab.reach();
        user.tell(&Message::Begin(request));
        assert!(user.is_refused());
    }
}

#[test]
fn the_end_that_receives_a_share_asks_for_nothing_else() {
    let lab = Lab::new();
    let Message::Begin(mut request) = request(lab.data().join("copy"), Level::Private) else { unreachable!() };
    let share = Share { index: 1, count: 2 };
    request.share = Some(share);
    let mut sends = lab.reach();
    sends.tell(&Message::Begin(request));
    assert!(matches!(sends.hear(), Some(Message::Begun { .. })));
    let files: Vec<_> = (0..20).map(|number| format!("file-{number}").into_bytes()).collect();
    let small = files.iter().map(|name| entry(Some(0), name, Kind::File { size: 5 }));
    let large = 2 * SPLIT;
    let others = [
        entry(Some(0), b"big", Kind::File { size: large }),
        entry(Some(0), b"link", Kind::Link { target: b"big".into() }),
    ];
    let entries: Vec<_> = std::iter::once(root()).chain(small).chain(others).collect();
    sends.offer(&entries);
    let there = loop {
        match sends.hear() {
            Some(Message::Wanted { count, there, .. }) => {
                assert_eq!(count as usize, entries.len());
                break there;
            }
            Some(Message::Beat) => {}
            other => panic!("{other:?}"),
        }
    };
    let nothing_of: Vec<u32> = there.iter().filter(|one| one.entry != 21).map(|one| one.entry).collect();
    let not_in_it = (1..=20).filter(|number| !share.has(&[&b"copy/"[..], &files[*number as usize - 1]].concat()));
    assert_eq!(nothing_of, not_in_it.collect::<Vec<u32>>());
    assert!(!nothing_of.is_empty() && nothing_of.len() < 20);
    let big = there.iter().find(|one| one.entry == 21).expect("half of it is another's");
    assert_eq!(big.ranges, [(0, share.range(large).0)]);
    assert!(!lab.data().join("copy/link").is_symlink());
}

const VERSION: u64 = 3 << 20;

impl Lab {
    /// A copy of a file that has an older version there; the other end has asked for its chunks.
    fn begin_version(&self) -> (Peer, [u8; 12]) {
        fs::create_dir_all(self.data().join("copy")).unwrap();
        fs::write(self.data().join("copy/file"), vec![7; VERSION as usize]).unwrap();
        let (mut peer, token) = self.begin("copy");
        peer.offer(&[root(), entry(Some(0), b"file", Kind::File { size: VERSION })]);
        loop {
            match peer.hear().expect("it wants it") {
                Message::Wanted { older, .. } => {
                    assert_eq!(older, [1]);
                    return (peer, token);
                }
                Message::Beat => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn tell_chunks(peer: &Peer, entry: u32, lengths: &[u32], count: u32) {
    let mut body = Vec::new();
    let chunk = |length: &u32| Chunk { length: *length, digest: [1; 16] };
    lengths.iter().for_each(|length| encode_chunk(&chunk(length), &mut body));
    let start = encode(&Message::Chunks { entry, key: [0; 32], count }, body.len() as u64);
    let _ = peer.link.send(Mark::None, start, vec![body.into()]);
}

#[test]
fn chunks_that_cannot_be_of_a_file_end_the_copy_and_its_older_version_stays() {
    let lab = Lab::new();
    let most = Chunking::of(VERSION).most() as u32;
    let all = vec![most; (VERSION / u64::from(most)) as usize];
    let wrong: [(u32, &[u32], u32); 7] = [
        (2, &all, all.len() as u32),
        (1, &all, 1),
        (1, &[], 0),
        (1, &[], u32::MAX),
        (1, &[0], 1),
        (1, &[most + 1], 1),
        (1, &[u32::MAX, u32::MAX], 2),
    ];
    for (entry, lengths, count) in wrong {
        let (mut peer, _token) = lab.begin_version();
        tell_chunks(&peer, entry, lengths, count);
        assert!(peer.is_refused(), "{entry} {} {count}", lengths.len());
        let file = fs::read(lab.data().join("copy/file")).unwrap();
        assert!(file.len() as u64 == VERSION && file.iter().all(|byte| *byte == 7));
    }
    let (mut peer, token) = lab.begin_version();
    let record = Record { entry: 1, offset: 0, length: 1, settles: false, hole: false };
    send(&mut lab.stream(token, 0), &[(record, b"x")]);
    assert!(peer.is_refused(), "bytes before the versions were compared");
}

#[test]
fn an_older_version_in_which_nothing_is_found_is_replaced_all_the_same() {
    let lab = Lab::new();
    let (mut peer, token) = lab.begin_version();
    let most = Chunking::of(VERSION).most() as u32;
    let all = vec![most; (VERSION / u64::from(most)) as usize];
    tell_chunks(&peer, 1, &all, all.len() as u32);
    loop {
        match peer.hear().expect("it goes on") {
            Message::Same { entry: 1, ranges, ended: true } => break assert!(ranges.is_empty()),
            Message::Beat => {}
            other => panic!("{other:?}"),
        }
    }
    let (mut stream, part) = (lab.stream(token, 0), vec![1; PART as usize]);
    for offset in (0..VERSION).step_by(PART as usize) {
        let length = (VERSION - offset).min(u64::from(PART)) as u32;
        let record = Record { entry: 1, offset, length, settles: offset + u64::from(length) == VERSION, hole: false };
        send(&mut stream, &[(record, &part[..length as usize])]);
    }
    assert_eq!(peer.hear_totals().files, 1);
    assert!(fs::read(lab.data().join("copy/file")).unwrap().iter().all(|byte| *byte == 1));
}

#[test]
fn words_of_older_versions_that_cannot_be_end_what_an_executor_sends() {
    let lab = Lab::new();
    fs::write(lab.data().join("file"), vec![7; VERSION as usize]).unwrap();
    let same = |entry, from, to| Message::Same { entry, ranges: vec![(from, to)], ended: true };
    let wanted = |older: &[u32]| Message::Wanted { count: 1, there: Vec::new(), older: older.to_vec() };
    for wrong in [
        wanted(&[1]),
        wanted(&[0, 0]),
        same(0, 0, 1),
        same(9, 0, 1),
        Message::Chunks { entry: 0, key: [0; 32], count: 0 },
    ] {
        let mut peer = lab.reach();
        peer.tell(&request_of(Direction::Get, lab.data().join("file"), Level::Private));
        while !matches!(peer.hear(), Some(Message::AllEntries)) {}
        peer.tell(&wrong);
        assert!(peer.is_refused(), "{wrong:?}");
    }
    for (from, to) in [(0, VERSION + 1), (5, 5), (9, 3), (u64::MAX, u64::MAX)] {
        let mut peer = lab.reach();
        peer.tell(&request_of(Direction::Get, lab.data().join("file"), Level::Private));
        while !matches!(peer.hear(), Some(Message::AllEntries)) {}
        peer.tell(&wanted(&[0]));
        while !matches!(peer.hear(), Some(Message::Chunks { .. })) {}
        peer.tell(&same(0, from, to));
        assert!(peer.is_refused(), "{from} {to}");
    }
}
