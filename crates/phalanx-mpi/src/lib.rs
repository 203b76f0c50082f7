//! Message passing: MPI and BSP processes over one core (paper 001, 4.2), independent of any C interface.
//!
//! The two C interfaces, the standard one and MPICH's, are crates of their own that translate handles and constants;
//! everything here speaks the numbers of the standard one (MPI 5.0, appendix A).

pub mod attached;
pub mod attribute;
pub mod bsp;
pub mod codes;
pub mod collective;
pub mod comm;
pub mod constants;
mod control;
mod cores;
pub mod datatype;
pub mod dynamic;
mod elsewhere;
pub mod engine;
pub mod environment;
pub mod errhandler;
pub mod error;
pub mod failures;
pub mod file;
pub mod group;
pub mod handle;
pub mod info;
pub mod life;
pub mod losses;
mod meeting;
pub mod memory;
pub mod op;
pub mod partitioned;
pub mod point;
pub mod quick;
pub mod request;
pub mod service;
pub mod session;
pub mod slices;
pub mod tasks;
pub mod topology;
pub mod transport;
mod turn;
pub mod universe;
mod wait;
pub mod window;
pub mod world;
