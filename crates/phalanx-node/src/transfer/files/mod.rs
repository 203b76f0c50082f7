//! Files at an executor: listings, and operations of users other than copies. Requests and answers travel over one link per
//! user, in the same order. Requests about this machine's own files are answered by the same code.

mod beneath;
mod client;
mod compare;
mod contents;
mod desk;
mod digests;
mod keeping;
mod kept;
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
