//! What programs do with their objects: messages, collective operations, windows and files.
//!
//! Low to high: [`point`] and its shortest way [`quick`], [`collective`], [`comm_create`], then [`topology`], [`window`] and
//! [`file`], which make communicators of their own.

pub mod collective;
pub mod comm_create;
pub mod file;
pub mod partitioned;
pub mod point;
pub mod quick;
pub mod topology;
pub mod window;
