//! Glob patterns: which paths a copy or a listing takes.

mod braces;
pub(super) mod filter;
mod glob;
