//! What programs do with their objects: messages, collective operations, windows and files.

pub mod collective;
pub mod comm_create;
pub mod file;
pub mod partitioned;
pub mod point;
pub mod quick;
pub mod topology;
pub mod window;
