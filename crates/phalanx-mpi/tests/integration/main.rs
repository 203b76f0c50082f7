//! Datatypes, operations and files as programs use them, in one process.
//!
//! One program for all of these tests, because each program links the whole library, which takes longer than to compile
//! the test.

mod datatypes;
mod files;
mod hostile_datatypes;
mod operations;
