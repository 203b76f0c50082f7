//! What each level costs between two processes of this machine, beside the machine's limits in the same run.
//!
//! `cargo bench -p phalanx-net --bench levels` prints one JSON object; `make bench-security` makes a table of it. With
//! `-- --level private` it does nothing else, for a profiler. The
//! process starts itself again as the receiver. Rates are of 1 MB messages over TCP on the loopback interface,
//! from the first byte sent to the last one received; the turns of all levels alternate, so that what the machine gives and
//! takes meanwhile is shared.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails says so")]

mod cpu;

use aegis::aegis128x2::Aegis128X2Mac;
use bytes::Bytes;
use cpu::own_cpu;
use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::{MAX_BODY, ToInterpreter, encode};
use phalanx_net::identity::{Authority, KeyedCertificate, Member, Role};
use phalanx_net::link::Link;
use phalanx_net::socket::Socket;
use phalanx_net::tls::{choose_ahead, offer};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MESSAGE: usize = 1_000_000;
const RECEIVER: &str = "PHALANX_BENCH_RECEIVER";
/// Bytes a second of a 10 Gbit/s line.
const TEN_GIGABIT: u32 = 1_250_000_000;
const HANDSHAKES: u32 = 100;

fn main() {
    if let Ok(address) = std::env::var(RECEIVER) {
        return receive(&address);
    }
    if let Some(level) = std::env::args().skip_while(|argument| argument != "--level").nth(1) {
        return profile(level.parse().unwrap());
    }
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (turns, messages) = if quick { (1, 300) } else { (7, 1500) };
    let mut rows: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..turns {
        let mut add = |name: String, value: f64| rows.entry(name).or_default().push(value);
        for level in [None, Some(Level::Clear), Some(Level::Authenticated), Some(Level::Safe), Some(Level::Private)] {
            let name = level.map_or("raw", Level::name);
            let (rate, cpu) = transfer(level, messages, None);
            add(format!("{name} MB/s"), rate);
            add(format!("{name} CPU s/GB"), cpu);
            if level.is_some() {
                add(format!("{name} at 10 Gbit/s MB/s"), transfer(level, messages, Some(TEN_GIGABIT)).0);
            }
        }
        for (name, value) in limits().into_iter().chain(handshakes()) {
            add(name.to_owned(), value);
        }
    }
    let rows: Vec<_> = rows.iter().map(|(name, values)| format!("  {name:?}: {values:?}")).collect();
    println!("{{\n{}\n}}", rows.join(",\n"));
}

/// One level alone, for a profiler.
fn profile(level: Level) {
    for _ in 0..5 {
        let (rate, cpu) = transfer(Some(level), 3000, None);
        println!("{level}: {rate:.0} MB/s, {cpu:.3} CPU s/GB");
    }
}

/// MB/s, and CPU seconds of both processes for each GB. No level: the bare connection.
fn transfer(level: Option<Level>, messages: usize, pace: Option<u32>) -> (f64, f64) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut receiver = start(&listener.local_addr().unwrap().to_string());
    let (mut stream, _) = listener.accept().unwrap();
    if let Some(pace) = pace {
        shape(&stream, pace);
    }
    let (ours, theirs) = (KeyedCertificate::ephemeral().unwrap(), KeyedCertificate::ephemeral().unwrap());
    let (certificate, key) = theirs.to_parts();
    let word = [u8::from(level.is_some()), level.map_or(0, |level| level as u8)];
    let count = (messages as u64).to_le_bytes();
    for part in [&word[..], &count, &certificate, &key, &ours.certificate] {
        stream.write_all(&(part.len() as u32).to_le_bytes()).unwrap();
        stream.write_all(part).unwrap();
    }
    let message = Bytes::from(vec![7; MESSAGE]);
    let own = own_cpu();
    let elapsed = match level {
        None => {
            let began = Instant::now();
            (0..messages).for_each(|_| stream.write_all(&message).unwrap());
            stream.read_exact(&mut [0]).unwrap();
            began.elapsed()
        }
        Some(level) => {
            let levels = Levels::all(level);
            let mut socket = Socket::tcp(stream).unwrap();
            let shake_hands = || {
                let soon = Instant::now() + Duration::from_secs(10);
                let client = ours.client_of(&theirs.certificate).unwrap();
                choose_ahead(client, levels, &[], &mut socket.until(soon)).unwrap()
            };
            let shaken = levels.need_handshake().then(shake_hands);
            let (link, reader) = Link::new(socket, shaken, MAX_BODY).unwrap();
            let answered = std::thread::spawn(move || {
                let mut reader = reader;
                let mut answered = false;
                while !answered {
                    reader.poll(Duration::from_secs(1), &mut |_| answered = true).unwrap();
                }
            });
            let began = Instant::now();
            for _ in 0..messages {
                link.send(Mark::None, encode(&ToInterpreter::Beat, MESSAGE as u64), vec![message.clone()]).unwrap();
                while !link.is_idle() {
                    link.wait(Duration::from_secs(1)).unwrap();
                }
            }
            answered.join().unwrap();
            began.elapsed()
        }
    };
    let cpu = own_cpu() - own + cpu_of(&mut receiver);
    let bytes = (messages * MESSAGE) as f64;
    (bytes / 1e6 / elapsed.as_secs_f64(), cpu / (bytes / 1e9))
}

fn start(address: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program).env(RECEIVER, address).stdout(Stdio::piped()).spawn().unwrap()
}

/// The other process: takes everything, says that it has, and how much CPU that took.
fn receive(address: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut part = || {
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    };
    let (word, count, certificate, key, peer) = (part(), part(), part(), part(), part());
    let messages = u64::from_le_bytes(count.try_into().unwrap()) as usize;
    let begun = own_cpu();
    if word[0] == 0 {
        let mut buffer = vec![0; 1 << 18];
        let mut left = messages * MESSAGE;
        while left > 0 {
            left -= stream.read(&mut buffer).unwrap();
        }
        stream.write_all(&[0]).unwrap();
    } else {
        let levels = Levels::all(Level::ALL[usize::from(word[1])]);
        let mut socket = Socket::tcp(stream).unwrap();
        let own = KeyedCertificate::from_parts(certificate, key.into());
        let soon = Instant::now() + Duration::from_secs(10);
        let server = || own.server_of(&peer).unwrap();
        let shake_hands = || offer(server(), levels.exactly(), &[], &mut socket.until(soon)).unwrap();
        let shaken = levels.need_handshake().then(shake_hands);
        let (link, mut reader) = Link::new(socket, shaken, MAX_BODY).unwrap();
        let mut left = messages;
        while left > 0 {
            reader.poll(Duration::from_secs(10), &mut |_| left -= 1).unwrap();
        }
        link.send(Mark::None, encode(&ToInterpreter::Beat, 0), Vec::new()).unwrap();
    }
    println!("{}", own_cpu() - begun);
}

fn cpu_of(receiver: &mut Child) -> f64 {
    let mut said = String::new();
    receiver.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(receiver.wait().unwrap().success());
    said.trim().parse().unwrap()
}

/// The kernel paces what TCP sends: a line of that many bytes a second.
#[cfg(target_os = "linux")]
fn shape(stream: &TcpStream, rate: u32) {
    use std::os::fd::AsRawFd;
    const SO_MAX_PACING_RATE: i32 = 47;
    let size = std::mem::size_of::<u32>() as u32;
    // SAFETY: the descriptor is open, and the value is a u32 of that size.
    let done = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, SO_MAX_PACING_RATE, (&raw const rate).cast(), size)
    };
    assert_eq!(done, 0, "this kernel does not pace");
}

#[cfg(not(target_os = "linux"))]
fn shape(_: &TcpStream, _: u32) {}

/// What is done with a block, and a place for what comes of it.
type Act<'a> = Box<dyn FnMut(&[u8], &mut [u8]) + 'a>;

/// What one core can do at most, in MB/s, on blocks as large as the links'.
fn limits() -> Vec<(&'static str, f64)> {
    const BLOCK: usize = 128 << 10;
    let (source, mut target) = (vec![1; 64 << 20], vec![0; BLOCK]);
    let mut rate = |mut act: Act| {
        let began = Instant::now();
        for _ in 0..4 {
            source.chunks_exact(BLOCK).for_each(|block| act(block, &mut target));
        }
        4.0 * source.len() as f64 / 1e6 / began.elapsed().as_secs_f64()
    };
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[1; 16]).unwrap());
    let nonce = || Nonce::assume_unique_for_key([0; 12]);
    vec![
        ("memcpy MB/s", rate(Box::new(|block, target| target.copy_from_slice(std::hint::black_box(block))))),
        (
            "AES-128-GCM seal MB/s",
            rate(Box::new(move |_, target| {
                let _ = std::hint::black_box(key.seal_in_place_separate_tag(nonce(), Aad::empty(), target));
            })),
        ),
        (
            "AEGIS-128X2 MAC MB/s",
            rate(Box::new(|block, _| {
                let mut mac = Aegis128X2Mac::<16>::new(&[1; 16]);
                mac.update(block);
                std::hint::black_box(mac.finalize());
            })),
        ),
    ]
}

/// CPU of both sides for a handshake between members of a grid, in microseconds.
fn handshakes() -> Vec<(&'static str, f64)> {
    let authority = Authority::create().unwrap();
    let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
    let (user, executor) = (member(Role::User, "ada"), member(Role::Executor, "labpc"));
    let client = user.client_of(Role::Executor).unwrap();
    shake_hands(&user.client_of(Role::Executor).unwrap(), &executor);
    let fresh = measure(|| shake_hands(&user.client_of(Role::Executor).unwrap(), &executor));
    shake_hands(&client, &executor);
    let resumed = measure(|| shake_hands(&client, &executor));
    vec![("handshake CPU us", fresh), ("resumed handshake CPU us", resumed)]
}

fn measure(act: impl Fn()) -> f64 {
    let began = own_cpu();
    (0..HANDSHAKES).for_each(|_| act());
    (own_cpu() - began) / f64::from(HANDSHAKES) * 1e6
}

fn shake_hands(client: &phalanx_net::identity::Client, executor: &Member) {
    let (mut one, mut other) = Socket::pair().unwrap();
    let (levels, soon) = (Levels::all(Level::Private), Instant::now() + Duration::from_secs(10));
    let server = executor.server().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let shaken = offer(server, levels.exactly(), &[], &mut other.until(soon)).unwrap();
            let (link, _reader) = Link::new(other.try_clone().unwrap(), Some(shaken), MAX_BODY).unwrap();
            link.send(Mark::None, encode(&ToInterpreter::Beat, 0), Vec::new()).unwrap();
        });
        let shaken = choose_ahead(client.connect().unwrap(), levels, &[], &mut one.until(soon)).unwrap();
        let (_link, mut reader) = Link::new(one.try_clone().unwrap(), Some(shaken), MAX_BODY).unwrap();
        let mut heard = false;
        while !heard {
            reader.poll(Duration::from_secs(1), &mut |_| heard = true).unwrap();
        }
    });
}
