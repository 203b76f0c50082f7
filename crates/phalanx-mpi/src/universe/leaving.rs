//! How a process ends its part in the program.

use crate::error::Result;
use crate::objects::comm::{COMM_WORLD, Comm};
use crate::operations::collective::{Call, barrier};
use crate::process::blocking::block_on;
use crate::process::transport::part;
use crate::process::world::{World, is_fork, world};
use phalanx_core::wire::ranks::FromRank;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long others may take to hear the farewell of a process that does not wait for them.
const PARTING: Duration = Duration::from_secs(2);

/// Ends the part in the program (MPI_Finalize): after all others have come here too, so that nobody's messages are
/// lost. Where somebody was lost, or MPI_COMM_WORLD was revoked, the others are not waited for. A fork has no part to end.
pub fn leave(world: &'static World) -> Result<()> {
    if is_fork() {
        return Ok(());
    }
    let everybody = Comm::of(COMM_WORLD)?;
    let call = Call::new(world, everybody.clone());
    let is_revoked = || everybody.is_revoked();
    let mut all = pin!(barrier(&call));
    let met = std::future::poll_fn(|context| {
        let others_go = world.has_losses() || is_revoked();
        if others_go { Poll::Ready(Ok(())) } else { all.as_mut().poll(context) }
    });
    let met = block_on(world, met);
    let others_go = world.has_losses() || is_revoked();
    if !others_go {
        met?;
    }
    world.engine().bid_farewell();
    while world.engine().is_blocked() {
        world.wait(|engine| (!engine.is_blocked()).then_some(()));
    }
    if others_go {
        let connections = world.engine().connections();
        part(&connections, PARTING); // others may be busy and send to this process still
    }
    if let Some(control) = &world.control {
        let _ = control.tell(&FromRank::Finalized); // who is gone needs no farewell
    }
    Ok(())
}

/// Ends the part in the program of a process that had sessions only, when it ends itself: there is no operation of all
/// before that. Runs so late that nothing may be used that a thread has for itself.
pub(crate) fn leave_at_exit(world: &World) {
    let deadline = Instant::now() + PARTING;
    world.engine().bid_farewell();
    while world.engine().is_blocked() && Instant::now() < deadline {
        if !world.engine().progress() {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    part(&world.engine().connections(), deadline.saturating_duration_since(Instant::now()));
    if let Some(control) = &world.control {
        let _ = control.tell(&FromRank::Finalized);
    }
}

/// Ends the program, with a word on why (MPI_Abort). A fork ends alone.
pub fn abort(code: i32, text: &str) -> ! {
    eprintln!("phalanx: {text}");
    if let Ok(world) = world() {
        world.tell_abort(code, text);
    }
    // What the shell sees has eight bits; failure must not become success.
    std::process::exit(if code & 0xff == 0 { 1 } else { code & 0xff })
}
