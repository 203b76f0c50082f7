//! What programs hold by handles: communicators, groups, requests, datatypes and the like, and what these are made of.
//!
//! An object knows the process and other objects, but none of the operations that use it.

pub mod attached;
pub mod attribute;
pub mod buffer;
pub mod codes;
pub mod comm;
pub mod datatype;
pub mod environment;
pub mod errhandler;
pub mod group;
pub mod handle;
pub mod info;
pub mod machines;
pub mod memory;
pub mod op;
pub mod partitions;
pub mod request;
pub mod topology;
