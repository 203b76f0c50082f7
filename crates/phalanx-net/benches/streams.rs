//! What the streams of a transfer cost, memory to memory on this machine, without plans, files and control links.
//!
//! `cargo bench -p phalanx-net --bench streams -- [GB [ROUNDS]]` prints GB/s and CPU seconds a GB, both ends together, for
//! each level, threads and streams. `plain` is what two threads do with bare sockets and calls of the same length.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails says so")]

mod cpu;

use cpu::own_cpu;
use phalanx_core::level::{Level, LevelSet, Levels};
use phalanx_net::dial::dial;
use phalanx_net::identity::KeyedCertificate;
use phalanx_net::socket::{Listener, Socket};
use phalanx_net::stream::{Incoming, Outgoing, PAYLOAD, Protection, Turns};
use phalanx_net::tls::{choose, offer};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const DATA: usize = PAYLOAD - 4096;
const SOON: Duration = Duration::from_secs(10);

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse::<f64>().ok());
    let (gigabytes, rounds) = (arguments.next().unwrap_or(2.0), arguments.next().unwrap_or(3.0) as usize);
    for round in 0..rounds {
        for streams in [1, 2] {
            let (rate, cpu) = plain(streams, gigabytes);
            println!("{round} plain           streams {streams}            {rate:5.2} GB/s {cpu:.3} CPU s/GB");
        }
        for level in Level::ALL {
            for (streams, threads) in [(1, 1), (1, 3), (2, 2), (2, 3), (4, 3)] {
                let protection = Protection { level, checked: false };
                let (rate, cpu) = transfer(protection, streams, threads, gigabytes);
                println!("{round} {level:15} streams {streams} threads {threads}  {rate:5.2} GB/s {cpu:.3} CPU s/GB");
            }
        }
        let (rate, cpu) = transfer(Protection { level: Level::Clear, checked: true }, 2, 3, gigabytes);
        println!("{round} clear, checked  streams 2 threads 3  {rate:5.2} GB/s {cpu:.3} CPU s/GB");
    }
}

fn connection(listener: &Listener) -> (Socket, Socket) {
    let dialled = dial(&listener.address().unwrap().into(), SOON).unwrap();
    (dialled.socket, listener.accept().unwrap().0)
}

fn transfer(protection: Protection, streams: usize, threads: usize, gigabytes: f64) -> (f64, f64) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let (ours, theirs) = (KeyedCertificate::ephemeral().unwrap(), KeyedCertificate::ephemeral().unwrap());
    let (sending, receiving) = (Turns::new().unwrap(), Turns::new().unwrap());
    for key in 0..streams {
        let (mut one, mut other) = connection(&listener);
        let (mut sent, mut received) = (None, None);
        if protection.level > Level::Clear {
            thread::scope(|scope| {
                let server = theirs.server_of(&ours.certificate).unwrap();
                let other = &mut other;
                let serving = scope.spawn(move || {
                    offer(server, [LevelSet::EVERY; 3], &[], &mut other.until(Instant::now() + SOON)).unwrap()
                });
                let client = ours.client_of(&theirs.certificate).unwrap();
                let levels = |_| Ok::<_, String>(Levels::all(protection.level));
                sent = Some(choose(client, levels, &[], &mut one.until(Instant::now() + SOON)).unwrap());
                received = Some(serving.join().unwrap());
            });
        }
        sending.add(key, Outgoing::new(one, sent, protection).unwrap()).unwrap();
        receiving.add(key, Incoming::new(other, received, protection).unwrap()).unwrap();
    }
    let blocks = AtomicI64::new((gigabytes * 1e9) as i64 / DATA as i64);
    let total = blocks.load(Ordering::Relaxed) as f64 * DATA as f64;
    let ended = AtomicUsize::new(0);
    let (began, cpu) = (Instant::now(), own_cpu());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| send(&sending, &blocks, threads));
            scope.spawn(|| receive(&receiving, &ended, streams, threads));
        }
    });
    (total / 1e9 / began.elapsed().as_secs_f64(), (own_cpu() - cpu) / (total / 1e9))
}

fn send(sending: &Turns<Outgoing>, blocks: &AtomicI64, threads: usize) {
    while sending.count() > 0 {
        let Some(mut turn) = sending.next(SOON).unwrap() else { break };
        loop {
            if !turn.stream.send().unwrap() {
                let Some(same) = sending.pause(turn, threads, SOON).unwrap() else { break };
                turn = same;
                continue;
            }
            if blocks.fetch_sub(1, Ordering::Relaxed) <= 0 {
                sending.remove(turn);
                break;
            }
            turn.stream.seal(DATA).unwrap();
        }
    }
    sending.close();
}

fn receive(receiving: &Turns<Incoming>, ended: &AtomicUsize, streams: usize, threads: usize) {
    while let Some(mut turn) = receiving.next(SOON).unwrap() {
        loop {
            match turn.stream.receive() {
                Ok(Some(payload)) => assert_eq!(payload.len(), DATA),
                Ok(None) => {
                    let Some(same) = receiving.pause(turn, threads, SOON).unwrap() else { break };
                    turn = same;
                }
                Err(_) => {
                    receiving.remove(turn);
                    if ended.fetch_add(1, Ordering::Relaxed) + 1 == streams {
                        receiving.close();
                    }
                    break;
                }
            }
        }
    }
}

fn plain(streams: usize, gigabytes: f64) -> (f64, f64) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let pairs: Vec<_> = (0..streams).map(|_| connection(&listener)).collect();
    let each = (gigabytes * 1e9) as usize / DATA / streams;
    let (began, cpu) = (Instant::now(), own_cpu());
    thread::scope(|scope| {
        for (mut one, mut other) in pairs {
            scope.spawn(move || {
                let block = vec![7; DATA];
                (0..each).for_each(|_| one.write_all(&block).unwrap());
            });
            scope.spawn(move || {
                let mut block = vec![0; DATA];
                (0..each).for_each(|_| other.read_exact(&mut block).unwrap());
            });
        }
    });
    let total = (each * streams * DATA) as f64 / 1e9;
    (total / began.elapsed().as_secs_f64(), (own_cpu() - cpu) / total)
}
