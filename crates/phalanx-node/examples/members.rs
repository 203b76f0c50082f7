//! Many members of one hub, for `make bench-grid`: `members TOKEN COUNT`.
//!
//! Each member has a key, a certificate and a link of its own, and stays as an executor does. Prints `joined COUNT SECONDS` when the hub
//! has let all in, and ends when it is killed.

use phalanx_core::hub::Token;
use phalanx_core::wire::hub::{GuestState, Status, Terms, Worked};
use phalanx_core::wire::jobs::FromHubJobs;
use phalanx_net::address::Address;
use phalanx_net::identity::{Member, Role};
use phalanx_net::link::Link;
use phalanx_net::socket::Socket;
use phalanx_node::log::Log;
use phalanx_node::membership::{Resident, Stay, Telling, join};
use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Members that join at the same time. A hub lets in 16 of one address.
const AT_ONCE: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(60);

type Failure = Box<dyn Error + Send + Sync>;

/// An executor that runs nothing.
struct Nobody;

impl Resident for Nobody {
    fn be_guest(&self, _: Option<Terms>) {}

    fn guest(&self) -> Option<GuestState> {
        None
    }

    fn come(&self, _: Socket) {}

    fn at_hub(&self, _: Option<(&Arc<Link>, &Address)>) {}

    fn hear_of_jobs(&self, _: FromHubJobs) {}

    fn is_at_hub(&self) -> bool {
        false
    }

    fn finds(&self, _: &str) -> bool {
        false
    }

    fn status(&self) -> Status {
        Status::default()
    }

    fn worked(&self) -> Worked {
        Worked::default()
    }
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = env::args().collect();
    let [_, token, count] = &words[..] else { return Err("members TOKEN COUNT".into()) };
    let (token, count): (Token, u32) = (token.parse()?, count.parse()?);
    let (next, begun) = (AtomicU32::new(0), Instant::now());
    let some = || -> Result<Vec<Stay>, Failure> {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.take_while(|number| *number < count).map(|number| stay(&token, number)).collect()
    };
    let all: Vec<Result<Vec<Stay>, Failure>> = thread::scope(|scope| {
        let joining: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(some)).collect();
        joining
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread has panicked".into())))
            .collect()
    });
    let stays = all.into_iter().collect::<Result<Vec<_>, _>>()?;
    println!("joined {count} {}", begun.elapsed().as_secs_f64());
    loop {
        thread::park(); // the stays have threads of their own
        assert!(!stays.is_empty());
    }
}

/// Joins as one more executor, and stays.
fn stay(token: &Token, number: u32) -> Result<Stay, Failure> {
    let joined = join(token, &format!("ws{number}"))?;
    let member = Member::parse(&joined.identity, Role::Executor)?.renewing(None, Vec::new())?;
    let facts = [("cores", "8"), ("memory", "34359738368"), ("python", "3.13"), ("system", "Linux 6.12.0")];
    let facts = facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).into();
    let telling = Telling { port: 7400, facts, ..Telling::default() };
    let stay = Stay::begin(member, joined.hubs, None, telling, Box::new(Nobody), Log::nowhere())?;
    match stay.waiting().until_in(PATIENCE) {
        true => Ok(stay),
        false => Err(format!("ws{number}: {}", stay.status()).into()),
    }
}
