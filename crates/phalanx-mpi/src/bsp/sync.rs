//! The end of a superstep.
//!
//! A barrier tells each process how many bytes each other has for it; then come these, and then what was asked for.
//! Nobody waits for more than that: the messages of one sync are told from those of the next by their tag.

use super::inbox::Inbox;
use super::parcel::{Kind, Parcel, entries};
use super::{Bsp, together};
use crate::error::{Class, Result, fail};
use crate::operations::collective::{Blocks, Call, Span, alltoall, everybody_says, zeroed};
use phalanx_net::copy::{append, copy};

/// What ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Superstep = 0,
    Program = 1,
}

impl End {
    fn call(self) -> &'static str {
        if self == End::Program { "end" } else { "sync" }
    }
}

/// What each tells each in the barrier: the bytes of the parcel; and in one number what ends, whether it has announcements,
/// whether it wants a checkpoint, and microseconds of work since the last superstep.
const WORD: usize = 16;
const ANNOUNCES: u64 = 1 << 8;
const SAVES: u64 = 1 << 9;
const WORK: u32 = 16;

/// What a process learns in the barrier.
struct Met {
    /// How long each one's parcel for this process is.
    lengths: Vec<usize>,
    /// Of each.
    flags: Vec<u64>,
}

impl Met {
    fn any(&self, flag: u64) -> bool {
        self.flags.iter().any(|flags| flags & flag != 0)
    }

    /// Seconds of work of each.
    fn work(&self) -> impl Iterator<Item = f64> {
        self.flags.iter().map(|flags| (flags >> WORK) as f64 * 1e-6)
    }
}

/// For a tag size that stays.
const STAYS: u64 = u64::MAX;

/// The two ends of the messages that follow the parcels, by process.
type Transfers = (Vec<(usize, Span)>, Vec<(usize, Span)>);

impl Bsp {
    pub(super) fn meet(&mut self, end: End) -> Result<()> {
        let begun = self.costs.begin();
        let work = self.moving.work();
        let call = Call::new(self.world, self.comm.clone());
        let parcels: Vec<Parcel> = self.parcels.iter_mut().map(std::mem::take).collect();
        let (sent, received) = together(self.world, self.exchange(&call, &parcels, end, work))?;
        self.keepers.clear();
        self.supersteps += 1;
        self.costs.end(begun, sent, received);
        self.moving.begin_work();
        Ok(())
    }

    /// Bytes that were sent to and received from others.
    async fn exchange(&mut self, call: &Call, parcels: &[Parcel], end: End, work: u64) -> Result<(u64, u64)> {
        let announces = self.areas.have_changes() || self.next_tagsize.is_some();
        let wishes = if announces { ANNOUNCES } else { 0 } | if self.moving.asks { SAVES } else { 0 };
        let met = barrier(call, parcels, end, wishes | work << WORK).await?;
        self.moving.saves = met.any(SAVES);
        self.moving.note(met.work());
        let mut inbox = Inbox::new(hand_over(call, parcels, &met.lengths).await?);
        let answers = self.answers(inbox.parcels())?;
        let mut received = self.unpack(&mut inbox)?;
        let mut got: Vec<Vec<u8>> = parcels.iter().map(|parcel| vec![0; parcel.answer()]).collect();
        let (sends, receives) = self.follow(parcels, inbox.parcels(), &answers, &mut got)?;
        let mut sent: u64 =
            (0..).zip(parcels).filter(|(to, _)| *to != call.rank()).map(|(_, parcel)| parcel.data).sum();
        let others = |(pid, span): &(usize, Span)| if *pid == call.rank() { 0 } else { span.length() as u64 };
        let hpputs: u64 = parcels.iter().flat_map(|parcel| &parcel.hpputs).map(|span| span.length() as u64).sum();
        sent += sends.iter().map(others).sum::<u64>() - hpputs; // these were counted with their parcel
        received += receives.iter().map(others).sum::<u64>();
        call.transfer(sends, receives).await;
        call.outcome()?;
        write_got(parcels, &got);
        self.write_put(&inbox)?;
        if met.any(ANNOUNCES) {
            self.announce(call).await?;
        }
        self.inbox = inbox;
        Ok((sent, received))
    }

    /// What others asked for, by process, before anything is written.
    fn answers(&self, parcels: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let answer = |parcel: &Vec<u8>| {
            let mut answer = Vec::new();
            for entry in entries(parcel) {
                let entry = entry?;
                if entry.kind == Kind::Get {
                    let memory = self.areas.memory(entry.slot, entry.offset, entry.length)?;
                    // SAFETY: the program lends its areas, and waits for this.
                    append(&mut answer, unsafe { memory.bytes() });
                }
            }
            Ok(answer)
        };
        parcels.iter().map(answer).collect()
    }

    /// Finds the messages of the queue; the bytes that came from others.
    fn unpack(&self, inbox: &mut Inbox) -> Result<u64> {
        let (mut letters, mut received) = (Vec::new(), 0);
        for (pid, parcel) in inbox.parcels().iter().enumerate() {
            for entry in entries(parcel) {
                let entry = entry?;
                received += if pid == self.pid() { 0 } else { entry.data.len() as u64 };
                if entry.kind == Kind::Send {
                    letters.push((pid, entry.slot as usize, entry.data));
                }
            }
        }
        for (pid, tag, data) in letters {
            inbox.add(pid, tag, data);
        }
        Ok(received)
    }

    /// Writes what was put, over what was got.
    fn write_put(&self, inbox: &Inbox) -> Result<()> {
        for parcel in inbox.parcels() {
            for entry in entries(parcel) {
                let entry = entry?;
                if entry.kind == Kind::Put {
                    let (data, memory) =
                        (&parcel[entry.data], self.areas.memory(entry.slot, entry.offset, entry.length)?);
                    // SAFETY: the program lends its areas, and the parcel is none of them.
                    unsafe { copy(data.as_ptr(), memory.start(), data.len()) };
                }
            }
        }
        Ok(())
    }

    /// The messages that follow the parcels. Between two processes they are, in this order: the answer to gets, what was
    /// got without copies, what was put without copies.
    fn follow(
        &self,
        parcels: &[Parcel],
        came: &[Vec<u8>],
        answers: &[Vec<u8>],
        got: &mut [Vec<u8>],
    ) -> Result<Transfers> {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        let add = |list: &mut Vec<(usize, Span)>, pid: usize, span: Span| {
            if !span.is_empty() {
                list.push((pid, span));
            }
        };
        for (pid, parcel) in parcels.iter().enumerate() {
            // SAFETY: the caller keeps it until the messages have gone; a send only reads.
            add(&mut sends, pid, unsafe { Span::new(answers[pid].as_ptr().cast_mut(), answers[pid].len()) });
            add(&mut receives, pid, Span::of(&mut got[pid]));
            parcel.hpgets.iter().for_each(|into| add(&mut receives, pid, *into));
            for (kind, list) in [(Kind::HpGet, &mut sends), (Kind::HpPut, &mut receives)] {
                for entry in entries(&came[pid]) {
                    let entry = entry?;
                    if entry.kind == kind {
                        add(list, pid, self.areas.memory(entry.slot, entry.offset, entry.length)?);
                    }
                }
            }
            parcel.hpputs.iter().for_each(|data| add(&mut sends, pid, *data));
        }
        Ok((sends, receives))
    }

    /// Changes what all processes change together: registrations and the tag size.
    async fn announce(&mut self, call: &Call) -> Result<()> {
        let tagsize = self.next_tagsize.take().unwrap_or(STAYS);
        let mut own = tagsize.to_le_bytes().to_vec();
        own.extend(self.areas.tell());
        let told = everybody_says(call, own).await?;
        let mut changes = Vec::with_capacity(told.len());
        for (pid, told) in told.iter().enumerate() {
            let Some((theirs, rest)) = told.split_first_chunk() else {
                return fail(Class::NotSame, format!("pid {pid} made another call than this process"));
            };
            let theirs = u64::from_le_bytes(*theirs);
            changes.push(rest);
            if theirs != tagsize {
                let size = |size| if size == STAYS { "nothing".to_string() } else { format!("{size} bytes") };
                let text = format!("pid {pid} set the tag size to {}, this process to {}", size(theirs), size(tagsize));
                return fail(Class::NotSame, text);
            }
        }
        if tagsize != STAYS {
            self.tagsize = tagsize;
        }
        self.areas.change(&changes)
    }
}

/// Nobody goes on before all have come.
async fn barrier(call: &Call, parcels: &[Parcel], end: End, flags: u64) -> Result<Met> {
    let flags = end as u64 | flags;
    let mut own = Vec::with_capacity(WORD * parcels.len());
    for parcel in parcels {
        own.extend((parcel.bytes.len() as u64).to_le_bytes());
        own.extend(flags.to_le_bytes());
    }
    let mut all = vec![0; own.len()];
    let blocks = |bytes: &mut [u8]| Blocks::Equal { all: Span::of(bytes), each: WORD };
    alltoall(call, &blocks(&mut own), &blocks(&mut all)).await;
    call.outcome()?;
    let (mut lengths, mut all_flags) = (Vec::with_capacity(parcels.len()), Vec::with_capacity(parcels.len()));
    for (pid, word) in all.chunks_exact(WORD).enumerate() {
        let number = |at: usize| u64::from_le_bytes(word[at..at + 8].try_into().expect("eight bytes"));
        let (length, flags) = (number(0), number(8));
        if flags & 1 != end as u64 {
            let other = if end == End::Program { End::Superstep } else { End::Program };
            return fail(
                Class::NotSame,
                format!("pid {pid} called {} where this process called {}", other.call(), end.call()),
            );
        }
        lengths.push(length as usize);
        all_flags.push(flags);
    }
    Ok(Met { lengths, flags: all_flags })
}

/// Exchanges the parcels that have something.
async fn hand_over(call: &Call, parcels: &[Parcel], lengths: &[usize]) -> Result<Vec<Vec<u8>>> {
    let mut came = lengths.iter().map(|length| zeroed(*length as u64)).collect::<Result<Vec<_>>>()?;
    let sends = parcels.iter().enumerate().filter(|(_, parcel)| !parcel.bytes.is_empty());
    let sends = sends.map(|(to, parcel)| {
        let bytes = &parcel.bytes;
        // SAFETY: the parcels outlive this; a send only reads.
        (to, unsafe { Span::new(bytes.as_ptr().cast_mut(), bytes.len()) })
    });
    let receives = came.iter_mut().enumerate().filter(|(_, parcel)| !parcel.is_empty());
    let receives = receives.map(|(from, parcel)| (from, Span::of(parcel)));
    call.transfer(sends, receives).await;
    call.outcome().map(|()| came)
}

/// Writes what this process got.
fn write_got(parcels: &[Parcel], got: &[Vec<u8>]) {
    for (parcel, got) in parcels.iter().zip(got) {
        let mut at = 0;
        for into in &parcel.gets {
            // SAFETY: the program lends it, and the answer is none of it.
            unsafe { copy(got[at..].as_ptr(), into.start(), into.length()) };
            at += into.length();
        }
    }
}
