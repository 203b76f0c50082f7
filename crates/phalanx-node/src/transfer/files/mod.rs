//! Files at an executor: what is in its folders, and what users do with that beside copying. One link for each user, over
//! which questions go and answers come in the same order; this machine's own files are asked the same questions.

mod beneath;
mod client;
mod compare;
mod contents;
mod desk;
mod digests;
mod line;
mod locate;
mod opened;
mod places;
mod remove;
mod room;
mod serve;
mod walk;

pub use client::{Reach, Session};
pub use compare::{Comparison, Counts, How, Side, Told, Verdict};
pub use line::{FilesError, GoesOn};
pub use opened::{Listing, NewFile, OpenFile, Wanted};
pub(super) use serve::{Guests, Terms, serve};
