//! Who is to be woken: a sender writes a message and then looks whether the receiver sleeps, which says that it does and then
//! looks for messages. Each must do so in this order, so that one of them sees what the other wrote.
//!
//! A sender that sees to it itself waits after each message until that has come to the memory. So a receiver that is about to
//! sleep, which is seldom, lets the system see to it for all processes that have agreed to that (membarrier on Linux).

use std::sync::atomic::{Ordering, fence};

/// Lets the system keep the order of this process's accesses when somebody asks. False where it cannot.
#[cfg(target_os = "linux")]
pub fn agree() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    // Both, since what may be done once may be done again.
    membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
        && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// What was accessed before, here and by all who have agreed, was so before what follows. False where the system does not allow it
/// any more: it was so here alone.
#[cfg(target_os = "linux")]
pub fn order_all() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    let is_so = membarrier(MembarrierCommand::GlobalExpedited).is_ok();
    order_own(is_so);
    is_so
}

/// Elsewhere each process sees to it itself.
#[cfg(not(target_os = "linux"))]
pub fn agree() -> bool {
    false
}

/// As above.
#[cfg(not(target_os = "linux"))]
pub fn order_all() -> bool {
    order_own(false);
    false
}

/// What was accessed before was so before what follows: the compiler keeps the order, and the processor if the other side
/// does not see to it.
#[inline]
pub fn order_own(other_sees_to_it: bool) {
    if other_sees_to_it {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
