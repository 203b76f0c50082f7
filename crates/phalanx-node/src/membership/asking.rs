//! A link to a hub, for one request after the other.

use super::AskError;
use super::seeking::leading;
use crate::control::{tell, tell_with};
use crate::dial::{DIAL_PATIENCE, printable, why_unreachable};
use phalanx_core::hub::{HAS, MOST_LOANS};
use phalanx_core::level::Levels;
use phalanx_core::wire::hub::{DayRow, FromHub, LEVEL, LoanRow, LoanTerms, Row, StatusRow, Statuses, ToHub};
use phalanx_core::wire::{MAX_CONTROL_BODY, decode};
use phalanx_net::address::Address;
use phalanx_net::dial::{Dialled, Expected, Judge, RELAYED, Target, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Member, Role};
use phalanx_net::link::{Link, Reader};
use phalanx_net::news::{Exchange, note_unwritten};
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::Socket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The levels of links to a hub.
pub(super) const LEVELS: Levels = Levels::all(LEVEL);
/// How long a hub may take to answer. The hub writes to its disk before it answers.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The same where there are other hubs to ask, and for the first answer, which needs no disk.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);
/// How often a request moves on because the hub does not lead, or is lost.
const MOST_MOVES: usize = 8;
/// A link whose hub sends nothing for this long is given up.
pub(super) const SILENCE: Duration = Duration::from_secs(75);
/// How long executors may take to say which programs they find; and how long while none has said that it finds all of them. A machine
/// that is frozen says nothing, and delays each question by so much.
const LOOKING: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];
/// The first pause and the longest one before the hub is asked again what executors have said.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(200)];
/// Most members that a listing asks for.
const MOST_MEMBERS: usize = 200_000;

/// Accepts any hub of the grid. The handshake has verified the role in the hub's certificate already.
#[derive(Debug)]
pub(super) struct AnyHub;

impl Judge for AnyHub {
    fn judge(&self, _: &str, _: Option<SocketAddr>) -> io::Result<()> {
        Ok(())
    }
}

/// A link to a hub.
pub struct AtHub {
    pub(super) link: Ending,
    pub(super) reader: Reader,
    /// `None`: this end is no member yet.
    pub(super) news: Option<Exchange>,
    /// The address at which the hub was reached.
    address: Address,
    way: Option<Way>,
    /// The name of the hub.
    name: String,
    /// Who asks, and the hubs that are known. `None`: this end is no member yet.
    asker: Option<(Member, Vec<String>)>,
}

/// The way to a hub, or to the proxy that leads there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    to: SocketAddr,
    /// The address of this machine when the link was opened.
    pub from: IpAddr,
    /// Whether a proxy is on the way, whose address the hub sees in place of this machine's.
    pub is_by_proxy: bool,
}

impl Way {
    fn of(dialled: &Dialled) -> Option<Way> {
        let to = dialled.socket.peer().ok()?;
        let is_by_proxy = dialled.address.is_some_and(|address| address.ip() == RELAYED);
        Some(Way { to, from: Socket::way_out(to).ok()?, is_by_proxy })
    }

    /// Whether this machine has moved to another network. Then its links have broken, and no operating system reports that. A
    /// machine without a network has not moved, because it may come back to the network in which it was.
    pub fn has_changed(&self) -> bool {
        Socket::way_out(self.to).is_ok_and(|from| from != self.from)
    }
}

/// Closes the link when it is dropped.
pub(super) struct Ending(pub Arc<Link>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The error about a hub that cannot be reached.
pub(super) fn unreachable(address: &Address, error: &io::Error) -> AskError {
    AskError::Unreachable(format!("{address}: {}", why_unreachable("hub", "phalanx up", error)))
}

impl AtHub {
    /// Opens a link to the hub that leads, as this member.
    ///
    /// # Errors
    /// No hub answers that leads, or the member's certificate cannot be used.
    pub fn open(member: &Member, hubs: &[String]) -> Result<AtHub, AskError> {
        let (own, known) = (member.clone(), hubs.to_vec());
        leading(hubs, move |address| {
            let mut at_hub = AtHub::open_at(&own, address)?;
            // A hub that leads answers a beat by a beat.
            match at_hub.ask_here(&ToHub::Beat, Vec::new(), SHORT_PATIENCE)?.0 {
                FromHub::Beat => {}
                _ => return Err(other()),
            }
            at_hub.asker = Some((own.clone(), known.clone()));
            Ok(at_hub)
        })
    }

    /// Opens a link to this hub, whether it leads or not.
    pub(super) fn open_at(member: &Member, address: &Address) -> Result<AtHub, AskError> {
        let client = member.newest().client_of(Role::Hub)?;
        let call = || {
            let dialled = dial(&Target::Hub(address.clone()), DIAL_PATIENCE)?;
            let (expected, way) = (Expected::Judged(&client, &AnyHub), Way::of(&dialled));
            let introduced = dialled.introduce(Preamble::Hub, expected, LEVELS, DIAL_PATIENCE)?;
            introduced.socket.end_when_silent(SILENCE)?;
            let name = introduced.name().map_err(io::Error::other)?;
            Ok((introduced.link(MAX_CONTROL_BODY)?, way, name))
        };
        let ((link, reader), way, name) = call().map_err(|error| unreachable(address, &error))?;
        let news = Some(Exchange::new(member.news()));
        Ok(AtHub { link: Ending(link), reader, news, address: address.clone(), way, name, asker: None })
    }

    /// Makes the link of a peer that joins.
    pub(super) fn joining(link: Arc<Link>, reader: Reader, address: &Address) -> AtHub {
        let (news, way, name, asker) = (None, None, String::new(), None);
        AtHub { link: Ending(link), reader, news, address: address.clone(), way, name, asker }
    }

    /// The hub's name. Empty: this end is no member yet.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The address at which the hub was reached.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The way by which the hub was reached. `None`: the operating system does not tell it.
    pub(super) fn way(&self) -> Option<Way> {
        self.way
    }

    /// Whether the link has ended, this machine has moved, or the link belongs to another process (this one is a fork).
    pub(super) fn has_ended(&self) -> bool {
        self.link.0.is_closed() || self.link.0.is_copy() || self.way.is_some_and(|way| way.has_changed())
    }

    /// Sends a request, and waits for its answer. If the hub does not lead any more, or is lost, asks the one that does.
    ///
    /// # Errors
    /// The hub refuses, or does not answer.
    pub fn ask(&mut self, request: &ToHub) -> Result<(FromHub, Vec<u8>), AskError> {
        let has_others = self.asker.as_ref().is_some_and(|(_, hubs)| hubs.len() > 1);
        self.ask_with(request, Vec::new(), if has_others { SHORT_PATIENCE } else { PATIENCE })
    }

    /// The same with a body, and so much time for the answer.
    pub(crate) fn ask_with(
        &mut self,
        request: &ToHub,
        body: Vec<u8>,
        patience: Duration,
    ) -> Result<(FromHub, Vec<u8>), AskError> {
        // To be done twice does harm to none of the others: an invitation that nobody has heard of is used by nobody.
        let repeats =
            !matches!(request, ToHub::Expel { .. } | ToHub::Leave | ToHub::Attend { .. } | ToHub::EndLoan { .. });
        for _ in 0..MOST_MOVES {
            let asked = self.ask_here(request, body.clone(), patience);
            let Some((member, known)) = self.asker.clone() else { return asked };
            let hubs: Vec<String> = match asked {
                Err(AskError::Elsewhere(hubs)) => hubs.into_iter().chain(known).collect(),
                Err(AskError::Ended(_)) if repeats && known.len() > 1 => known,
                asked => return asked,
            };
            self.link.0.close();
            *self = AtHub::open(&member, &hubs)?;
        }
        Err(AskError::Unreachable("the hubs do not agree which of them leads".to_owned()))
    }

    /// Sends a request to this hub, and waits for its answer.
    pub(super) fn ask_here(
        &mut self,
        request: &ToHub,
        body: Vec<u8>,
        patience: Duration,
    ) -> Result<(FromHub, Vec<u8>), AskError> {
        match body.is_empty() {
            true => tell(&self.link.0, request),
            false => tell_with(&self.link.0, request, body),
        }
        let waits_for_beat = *request == ToHub::Beat;
        let (until, mut answer) = (Instant::now() + patience, None);
        while answer.is_none() {
            if Instant::now() >= until {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            if self.link.0.is_blocked() {
                // A long request: the socket had no room for all of it.
                self.link.0.wait(until - Instant::now())?;
            }
            let mut heard = Vec::new();
            let polled = self.reader.poll(until - Instant::now(), &mut |frame: Frame| heard.push(frame));
            for frame in heard {
                match self.take(&frame, waits_for_beat)? {
                    Some(message) if answer.is_none() => answer = Some((message, frame.body.to_vec())),
                    _ => {}
                }
            }
            if answer.is_none() {
                polled.map_err(io::Error::other)?;
            }
            self.tell_news();
        }
        match answer.expect("was heard") {
            (FromHub::Refused { reason }, _) => Err(AskError::Refused(printable(&reason))),
            (FromHub::NoMember { reason }, _) => Err(AskError::NoMember(printable(&reason))),
            (FromHub::Elsewhere { hubs, .. }, _) => Err(AskError::Elsewhere(hubs)),
            answer => Ok(answer),
        }
    }

    /// Handles a frame that is no answer: news or a beat. Returns any other message.
    fn take(&mut self, frame: &Frame, waits_for_beat: bool) -> Result<Option<FromHub>, AskError> {
        match decode(&frame.header).map_err(io::Error::other)? {
            FromHub::News(message) => {
                if let Some(news) = &mut self.news {
                    note_unwritten(&news.hear(message, &frame.body)?);
                }
                Ok(None)
            }
            FromHub::Beat if !waits_for_beat => Ok(None),
            FromHub::Hubs { .. } => Ok(None),
            message => Ok(Some(message)),
        }
    }

    fn tell_news(&mut self) {
        while let Some((message, body)) = self.news.as_mut().and_then(Exchange::due) {
            tell_with(&self.link.0, &ToHub::News(message), body);
        }
    }

    /// Asks for a new certificate for this member. Returns it as PEM.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn renew(&mut self) -> Result<String, AskError> {
        match self.ask(&ToHub::Renew)? {
            (FromHub::Renewed, pem) => String::from_utf8(pem).map_err(|_| other()),
            _ => Err(other()),
        }
    }

    /// Asks for an invitation for so many members in this role and so many seconds. Returns the token that a user types.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn invite(&mut self, role: String, uses: u32, seconds: u64) -> Result<String, AskError> {
        match self.ask(&ToHub::Invite { role, uses, seconds })? {
            (FromHub::Invited { token }, _) => Ok(token),
            _ => Err(other()),
        }
    }

    /// Expels the members of this name. Returns how many certificates were revoked.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn expel(&mut self, name: String) -> Result<u32, AskError> {
        match self.ask(&ToHub::Expel { name })? {
            (FromHub::Expelled { certificates }, _) => Ok(certificates),
            _ => Err(other()),
        }
    }

    /// Lends executors to another grid. Returns its name.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn lend(&mut self, terms: LoanTerms) -> Result<String, AskError> {
        match self.ask(&ToHub::Lend(terms))? {
            (FromHub::Lent { grid }, _) => Ok(grid),
            _ => Err(other()),
        }
    }

    /// Ends the loan to a grid.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn end_loan(&mut self, grid: String) -> Result<(), AskError> {
        match self.ask(&ToHub::EndLoan { grid })? {
            (FromHub::Lent { .. }, _) => Ok(()),
            _ => Err(other()),
        }
    }

    /// All loans.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn loans(&mut self) -> Result<Vec<LoanRow>, AskError> {
        let mut all: Vec<LoanRow> = Vec::new();
        loop {
            let after = all.last().map(|row| row.grid.clone());
            let (answer, body) = self.ask(&ToHub::Loans { after })?;
            let FromHub::Loans { goes_on } = answer else { return Err(other()) };
            let rows: Vec<LoanRow> = decode(&body).map_err(io::Error::other)?;
            let is_end = !goes_on || rows.is_empty() || all.len() + rows.len() > MOST_LOANS;
            all.extend(rows);
            if is_end {
                return Ok(all);
            }
        }
    }

    /// Leaves the grid for good.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn leave(&mut self) -> Result<(), AskError> {
        match self.ask(&ToHub::Leave)? {
            (FromHub::Left, _) => Ok(()),
            _ => Err(other()),
        }
    }

    /// Asks for all members, and the addresses of the hubs.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn members(&mut self) -> Result<(Vec<Row>, Vec<String>), AskError> {
        self.members_by(|after| ToHub::Members { after })
    }

    /// All members. The facts of executors that are here tell which of these programs they find, as far as they have said so. The others
    /// are asked.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn seek(&mut self, programs: &[String]) -> Result<Vec<Row>, AskError> {
        match programs.is_empty() {
            true => Ok(self.members()?.0),
            false => Ok(self.members_by(|after| ToHub::Seek { after, programs: programs.to_vec() })?.0),
        }
    }

    /// The same, and waits a moment for those that have not said it.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn seek_and_wait(&mut self, programs: &[String]) -> Result<Vec<Row>, AskError> {
        let (began, mut pause) = (Instant::now(), PAUSES[0]);
        loop {
            let rows = self.seek(programs)?;
            let here = || rows.iter().filter(|row| row.is_here && row.role == Role::Executor.name());
            let said = |row: &Row| {
                let each = programs.iter().map(|it| row.facts.get(&format!("{HAS}{it}")));
                (
                    each.clone().all(|it| it.is_some()),
                    each.flatten().filter(|it| *it == "yes").count() == programs.len(),
                )
            };
            let most = LOOKING[usize::from(!here().any(|row| said(row).1))];
            if here().all(|row| said(row).0) || began.elapsed() >= most {
                return Ok(rows);
            }
            thread::sleep(pause);
            pause = PAUSES[1].min(pause * 2);
        }
    }

    /// The work of executors since this day, in days since 1970.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn history(&mut self, since: u32) -> Result<Vec<DayRow>, AskError> {
        let request =
            |last: Option<&DayRow>| ToHub::History { since, after: last.map(|row| (row.day, row.executor.clone())) };
        self.pages(request, |answer, body| {
            let FromHub::History { goes_on } = answer else { return Err(other()) };
            Ok((decode(body).map_err(io::Error::other)?, goes_on))
        })
    }

    /// What all executors run, and what the hub relays.
    ///
    /// # Errors
    /// As [`AtHub::ask`].
    pub fn statuses(&mut self) -> Result<Statuses, AskError> {
        let mut first = None;
        let request = |last: Option<&StatusRow>| ToHub::Statuses { after: last.map(|row| row.name.clone()) };
        let executors = self.pages(request, |answer, body| {
            let FromHub::Statuses { goes_on } = answer else { return Err(other()) };
            let mut page: Statuses = decode(body).map_err(io::Error::other)?;
            let rows = std::mem::take(&mut page.executors);
            first.get_or_insert(page);
            Ok((rows, goes_on))
        })?;
        Ok(Statuses { executors, ..first.unwrap_or_default() })
    }

    /// All members that answer such a request, and the addresses of the hubs.
    fn members_by(
        &mut self,
        request: impl Fn(Option<(String, String)>) -> ToHub,
    ) -> Result<(Vec<Row>, Vec<String>), AskError> {
        let mut addresses = Vec::new();
        let request = |last: Option<&Row>| request(last.map(|row| (row.role.clone(), row.name.clone())));
        let rows = self.pages(request, |answer, body| {
            let FromHub::Members { goes_on, hubs } = answer else { return Err(other()) };
            addresses = hubs;
            Ok((decode(body).map_err(io::Error::other)?, goes_on))
        })?;
        Ok((rows, addresses))
    }

    /// All rows of a listing, which the hub answers page by page. `request`: asks for the rows after the last one. `read`: the rows of a
    /// page, and whether more follow.
    fn pages<T>(
        &mut self,
        request: impl Fn(Option<&T>) -> ToHub,
        mut read: impl FnMut(FromHub, &[u8]) -> Result<(Vec<T>, bool), AskError>,
    ) -> Result<Vec<T>, AskError> {
        let mut all: Vec<T> = Vec::new();
        loop {
            let (answer, body) = self.ask(&request(all.last()))?;
            let (rows, goes_on) = read(answer, &body)?;
            let is_end = !goes_on || rows.is_empty() || all.len() + rows.len() > MOST_MEMBERS;
            all.extend(rows);
            if is_end {
                return Ok(all);
            }
        }
    }
}

/// The error for an answer that does not fit the request.
pub(super) fn other() -> AskError {
    io::Error::other("it answers something else").into()
}
