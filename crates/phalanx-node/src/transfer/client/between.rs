//! A copy between two executors, directed by their user. The bytes travel directly from one executor to the other.
//!
//! The user names the certificate of the sending executor to the receiving one, and gets a ticket. The sending executor calls
//! the receiving one and shows the ticket. The copy ends when the user's link to either executor ends.

use super::calling::{Called, Caller};
use super::job::{CopyError, Job, Report, Shared, asked};
use crate::control::{Pulse, tell};
use crate::dial::{agree, printable};
use crate::transfer::endpoint::common::{Failure, MOST_TOLD};
use crate::transfer::system::{from_bytes, to_bytes};
use phalanx_core::level::{Level, LevelSet, Mark};
use phalanx_core::wire::decode;
use phalanx_core::wire::transfer::{Carriage, Carried, Direction, Message, Target, Totals, Trouble};
use phalanx_net::address::Address;
use phalanx_net::frames::Frame;
use phalanx_net::identity::Role;
use phalanx_net::link::Link;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

/// Interval at which the links to the executors are checked.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the receiving executor may take to report the outcome, after the sending one has.
const PATIENCE: Duration = Duration::from_secs(10);

/// Closes the links when it is dropped.
struct Ending<'a>([&'a Link; 2]);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|link| link.close());
    }
}

/// One attempt of the copy, from the path `from` at the executor `source`.
pub fn attempt(job: &Job, source: &Address, from: &Target, shared: &Shared) -> Result<Report, CopyError> {
    let dialler = job.caller()?;
    let call = |address| Called::new(address, Caller::User(&dialler), |link| shared.add_link(link));
    let sends = call(source)?;
    let mut receives = sends.keep_waiting(|| call(&job.address))?;
    if receives.at.ip().is_loopback() && !sends.at.ip().is_loopback() {
        let what = "is this machine's own address, which the other executor cannot reach: name it as others do";
        return Err(CopyError::Refused(format!("{} {what}", receives.address)));
    }
    let (links, peers) = ([sends.link.clone(), receives.link.clone()], vec![sends.name.clone(), receives.name.clone()]);
    let _ending = Ending([&links[0], &links[1]]);
    let level = least(job, &sends, &receives)?;
    let levels = taken(job, level, &sends, &receives);
    let name = to_bytes(&asked(from).map_err(|error| CopyError::Refused(error.to_string()))?);
    let is_near = sends.at.ip() == receives.at.ip();
    let request = |direction, target: &Target| {
        job.request(direction, target.clone(), job.filter.clone(), level, is_near, name.clone())
    };
    let (get, put) = (request(Direction::Get, from), request(Direction::Put, &job.there));
    let expect = Message::Expect { request: put, levels, name, certificate: sends.certificate.clone() };
    let answer = sends.keep_waiting(|| receives.ask(&expect))?;
    let Message::Ticket { ticket } = answer else { return Err(receives.nonsense()) };
    let (address, certificate) = (receives.at.to_string(), receives.certificate.clone());
    let carriage = Carriage {
        request: get,
        levels,
        exact: job.level.is_some(),
        streams: job.streams,
        address,
        certificate,
        ticket,
    };
    tell(&sends.link, &Message::Carry(carriage));
    let (told, arrived) = mpsc::sync_channel(1);
    let receiver = receives.address.clone();
    thread::scope(|scope| {
        scope.spawn(|| attend(receives, told));
        let outcome = hear_out(sends, shared);
        let outcome = outcome.and_then(|report| agreed(report, source, &receiver, arrived.recv_timeout(PATIENCE)));
        links[1].close();
        outcome.map(|report| Report { peers, ..report })
    })
}

/// The outcome, if both executors report the same.
fn agreed(
    report: Report,
    source: &Address,
    receiver: &Address,
    arrived: Result<(Level, Totals), RecvTimeoutError>,
) -> Result<Report, CopyError> {
    let (level, totals) =
        arrived.map_err(|_| CopyError::Cut(format!("{receiver} does not say what came of the copy")))?;
    if (level, totals) == (report.level, report.totals) {
        return Ok(report);
    }
    let words = |level: Level, totals: Totals| format!("{} files, {} bytes, {level}", totals.files, totals.bytes);
    let (one, other) = (words(report.level, report.totals), words(level, totals));
    Err(CopyError::Refused(format!(
        "{source} says that it sent {one}, and {receiver} that it received {other}: one of them is wrong"
    )))
}

/// The levels that the streams may have: at least `least`, and none that the user's policy forbids for one of the executors.
fn taken(job: &Job, least: Level, one: &Called, other: &Called) -> LevelSet {
    let of = |called: &Called| {
        let place = job.policy.place(Some(called.at.ip()), Role::Executor.name());
        job.policy.allowed(&place, Mark::None)
    };
    match job.level {
        Some(asked) => LevelSet::from(asked).levels().skip(1).fold(LevelSet::from(asked), LevelSet::without),
        None => LevelSet::from(least).both(of(one)).both(of(other)),
    }
}

/// The weakest level that the streams may have, by the user's policy for both executors or by the level that was asked for.
fn least(job: &Job, one: &Called, other: &Called) -> Result<Level, CopyError> {
    let of = |called: &Called| {
        let agreed = agree(&job.policy, job.level, called.at.ip(), LevelSet::from(Level::Clear));
        agreed.map_err(|why| CopyError::Level(format!("{}: {why}", called.address)))
    };
    Ok(of(one)?.0.max(of(other)?.0))
}

/// Serves the link to the receiving executor: sends beats, and receives the outcome.
fn attend(called: Called, told: SyncSender<(Level, Totals)>) {
    let (reader, heard) = called.into_ear().into_parts();
    let on_frame = |frame: Frame| {
        if let Ok(Message::Arrived { level, totals }) = decode(&frame.header) {
            let _ = told.try_send((level, totals)); // only the first one counts
        }
    };
    heard.into_iter().for_each(on_frame);
    let mut pulse = Pulse::new();
    reader.run(PAUSE, on_frame, |link| pulse.pause(link, &Message::Beat));
}

/// Hears from the sending executor how far it is, and what came of it.
fn hear_out(called: Called, shared: &Shared) -> Result<Report, CopyError> {
    let (address, link) = (called.address.clone(), called.link.clone());
    let (reader, heard) = called.into_ear().into_parts();
    let (mut ended, mut failures) = (None, Vec::new());
    let mut on_frame = |frame: Frame| match decode(&frame.header) {
        _ if ended.is_some() => {}
        Ok(Message::Beat) => {}
        Ok(Message::Progress { bytes, total, growing }) => shared.set_progress((bytes, total, growing)),
        Ok(Message::Skipped { path, reason }) => {
            let path = from_bytes(path).unwrap_or_default().into();
            if failures.len() < MOST_TOLD {
                failures.push(Failure { path, reason: printable(&reason) }); // more are in the totals
            }
        }
        last => {
            ended = Some(match last {
                Ok(Message::Carried(carried)) => Ok(carried),
                Ok(Message::Stopped { trouble, reason }) => Err(stopped(&address, trouble, &reason)),
                Ok(Message::Refused { reason }) => Err(stopped(&address, Trouble::Refused, &reason)),
                _ => Err(CopyError::Refused(format!("{address} does not speak as an executor does"))),
            });
            link.close();
        }
    };
    heard.into_iter().for_each(&mut on_frame);
    let mut pulse = Pulse::new();
    reader.run(PAUSE, on_frame, |link| pulse.pause(link, &Message::Beat));
    let Carried { level, why, streams, lost, altered, setup, totals } =
        ended.unwrap_or_else(|| Err(CopyError::Cut(format!("{address} is out of reach"))))?;
    let setup = Duration::from_micros(setup);
    let (why, cuts, elapsed) = (printable(&why), 0, Duration::ZERO);
    let peers = Vec::new(); // the caller knows them
    Ok(Report { level, why, peers, streams, totals, failures, lost, altered, cuts, setup, elapsed })
}

fn stopped(address: &Address, trouble: Trouble, reason: &str) -> CopyError {
    let reason = format!("{address}: {}", printable(reason));
    match trouble {
        Trouble::Unreachable => CopyError::Unreachable(reason),
        Trouble::Level => CopyError::Level(reason),
        Trouble::Refused => CopyError::Refused(reason),
        Trouble::Cut => CopyError::Cut(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executors_that_say_different_things_of_a_copy_are_not_believed() {
        let (one, other): (Address, Address) = ("a:1".parse().expect("is one"), "b:2".parse().expect("is one"));
        let totals = Totals { files: 2, bytes: 7, ..Totals::default() };
        let report = Report {
            level: Level::Private,
            why: String::new(),
            peers: Vec::new(),
            streams: 1,
            totals,
            failures: Vec::new(),
            lost: 0,
            altered: 0,
            cuts: 0,
            setup: Duration::ZERO,
            elapsed: Duration::ZERO,
        };
        let heard = |arrived| agreed(report.clone(), &one, &other, arrived);
        assert!(heard(Ok((Level::Private, totals))).is_ok());
        for (level, files) in [(Level::Clear, 2), (Level::Private, 1)] {
            let differs = heard(Ok((level, Totals { files, ..totals })));
            assert!(matches!(differs, Err(CopyError::Refused(words)) if words.contains("a:1 says")));
        }
        assert!(
            matches!(heard(Err(RecvTimeoutError::Timeout)), Err(CopyError::Cut(_))),
            "who says nothing is asked again"
        );
    }
}
