//! What ranks of a program that survives losses save on one machine, and how it comes to the launcher. A thread looks for steps that
//! ranks have completed, sends their files when the launcher asks for them, and removes those that the launcher does not need.

use crate::credit::Credit;
use crate::scratch::Folder;
use crate::scratch::saved::Saved;
use phalanx_core::wire::machines::{FromMachine, MOST_PIECE, Part};
use phalanx_core::wire::ranks::{RESTARTED, STEP, SURVIVE};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Interval between two looks at the ranks' folders. A look at the folder of one rank takes some 10 µs.
const LOOK: Duration = Duration::from_millis(100);
/// How nice the thread is (nice(2)), so that ranks that compute on all cores go first.
const NICE: i32 = 5;
/// Most steps of a rank that are remembered. The launcher fetches the newest that all ranks have.
const MOST_STEPS: usize = 64;
/// Longest reason, in characters, why files cannot be sent.
const LONGEST_REASON: usize = 500;

/// Sends the launcher a message with a body. It waits while the launcher has too much to write, and returns false once the launcher
/// is gone.
pub type Carry = Box<dyn FnMut(FromMachine, &[u8]) -> bool + Send>;

/// The handle of the thread. Dropping it ends the thread.
pub struct Saving {
    orders: Option<Sender<Order>>,
    /// What the thread may be waiting for.
    credit: Arc<Credit>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The launcher's wish.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// Send the files of this step.
    Fetch(u64),
    /// Files of older steps are not needed.
    Release(u64),
}

/// Tells the ranks of a part where to save their files, how often the program was restarted, and from which step it goes on.
pub fn tell_ranks(part: &mut Part, folder: &Folder, restarts: u32, step: Option<u64>) {
    let with_folder = |(rank, mut program): (u32, phalanx_core::wire::machines::Program)| {
        let own = folder.of_rank(rank).into_os_string().into_vec();
        let step = step.map(|step| (STEP.into(), step.to_string().into_bytes()));
        let told = [(SURVIVE.into(), own), (RESTARTED.into(), restarts.to_string().into_bytes())];
        program.environment.extend(told.into_iter().chain(step));
        (1, program)
    };
    part.programs = part.ranks().map(|(rank, program)| (rank, program.clone())).map(with_folder).collect();
}

impl Saving {
    /// Starts the thread for these ranks, whose folders are there. `credit` is what `carry` waits for.
    pub fn start(folder: Arc<Folder>, ranks: Range<u32>, credit: Arc<Credit>, carry: Carry) -> io::Result<Saving> {
        let (orders, obeyed) = channel();
        let known = ranks.clone().map(|_| BTreeMap::new()).collect();
        let watching = Watching { folder, ranks, known, orders: obeyed, next: None, carry };
        let thread = thread::Builder::new().name("phalanx-saving".into()).spawn(move || watching.run())?;
        Ok(Saving { orders: Some(orders), credit, thread: Some(thread) })
    }

    pub fn order(&self, order: Order) {
        self.orders.iter().for_each(|orders| {
            let _ = orders.send(order); // a thread that has ended has no launcher to send to
        });
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        self.orders = None;
        self.credit.close();
        let _ = self.thread.take().map(thread::JoinHandle::join); // it uses the folder, which is removed next
    }
}

/// The thread's state.
struct Watching {
    folder: Arc<Folder>,
    ranks: Range<u32>,
    /// For each rank, the completed steps that the launcher knows of, with the bytes of their files.
    known: Vec<BTreeMap<u64, u64>>,
    orders: Receiver<Order>,
    /// The step that the launcher asked for while another one was sent.
    next: Option<u64>,
    carry: Carry,
}

impl Watching {
    fn run(mut self) {
        // SAFETY: a plain system call; on Linux it is about the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
        loop {
            match self.orders.recv_timeout(LOOK) {
                Ok(Order::Fetch(step)) => self.send(step),
                Ok(Order::Release(step)) => self.remove_older(step, None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Some(step) = self.next.take() {
                self.send(step);
            }
            self.look();
        }
    }

    /// Takes orders while files of a step are sent. An error: another step is wanted instead.
    fn obey_meanwhile(&mut self, sent: u64) -> io::Result<()> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Fetch(step) => self.next = Some(step),
                Order::Release(step) => self.remove_older(step, Some(sent)),
            }
        }
        if self.next.is_some() { fail("another step was asked for".to_owned()) } else { Ok(()) }
    }

    /// Tells the launcher of steps that ranks have completed.
    fn look(&mut self) {
        for (rank, known) in self.ranks.clone().zip(&mut self.known) {
            let Ok(entries) = self.folder.saved_entries(rank) else { continue };
            known.retain(|step, _| entries.contains_key(step));
            for (step, names) in entries.iter().rev().take(MOST_STEPS) {
                if !known.contains_key(step) {
                    known.insert(*step, length(&self.folder, rank, names));
                    (self.carry)(FromMachine::Completed { rank, step: *step }, &[]);
                }
            }
        }
    }

    fn send(&mut self, step: u64) {
        let sent = self.ranks.clone().try_for_each(|rank| self.send_of(rank, step));
        let outcome = sent.map_err(|error| error.to_string().chars().take(LONGEST_REASON).collect());
        (self.carry)(FromMachine::Fetched { step, outcome }, &[]);
    }

    fn send_of(&mut self, rank: u32, step: u64) -> io::Result<()> {
        let entries = self.folder.saved_entries(rank)?;
        let files = match entries.get(&step).map(Vec::as_slice) {
            None | Some([]) => {
                return fail(format!("rank {rank} has removed its files of it: leave the removal to phalanx"));
            }
            Some([one]) => self.folder.saved_files(rank, one)?,
            Some([one, other, ..]) => {
                return fail(format!(
                    "rank {rank} has {one} and {other}: save several files in one folder, step-{step}"
                ));
            }
        };
        if files.is_empty() {
            return fail(format!("rank {rank} has saved an empty folder"));
        }
        let length = self.known[(rank - self.ranks.start) as usize].get(&step).copied();
        if length.is_some_and(|length| length != files.iter().map(|file| file.length).sum::<u64>()) {
            return fail(changed(rank));
        }
        files.into_iter().try_for_each(|file| self.send_file(rank, step, file))
    }

    fn send_file(&mut self, rank: u32, step: u64, Saved { name, length }: Saved) -> io::Result<()> {
        let file = self.folder.open_saved(rank, &name)?;
        let mut left = file.take(length);
        (self.carry)(FromMachine::StepFile { rank, step, name, length }, &[]);
        let mut piece = vec![0; MOST_PIECE];
        let mut sent = 0;
        loop {
            let count = left.read(&mut piece)?;
            if count == 0 {
                return if sent == length { Ok(()) } else { fail(changed(rank)) };
            }
            sent += count as u64;
            self.obey_meanwhile(step)?;
            if !(self.carry)(FromMachine::StepPiece, &piece[..count]) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }

    /// Removes what ranks have saved in older steps, except the one that is being sent.
    fn remove_older(&mut self, step: u64, sent: Option<u64>) {
        for rank in self.ranks.clone() {
            let Ok(entries) = self.folder.saved_entries(rank) else { continue };
            let older = entries.range(..step).filter(|(its, _)| Some(**its) != sent);
            for name in older.flat_map(|(_, names)| names) {
                let _ = self.folder.remove_saved(rank, name); // removed with the program's folder at the latest
            }
        }
    }
}

/// The bytes of an entry's files. What cannot be read is told when the launcher asks for it.
fn length(folder: &Folder, rank: u32, names: &[String]) -> u64 {
    let files = names.iter().filter_map(|name| folder.saved_files(rank, name).ok()).flatten();
    files.map(|file| file.length).sum()
}

fn changed(rank: u32) -> String {
    format!(
        "rank {rank} has changed its files of it: write them under another name, and rename them when they are complete"
    )
}

fn fail<T>(why: String) -> io::Result<T> {
    Err(io::Error::other(why))
}
