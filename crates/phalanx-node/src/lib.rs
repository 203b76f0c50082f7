//! The drivers: they turn the engines' commands into effects, and effects into events.
//!
//! The only crate that reads a clock, starts threads and processes, and touches the disk.

#![deny(missing_docs)]
// Message passing, jobs and cages are there on Linux only, and so is what only they use.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

pub mod asked;
pub mod cage;
#[cfg(unix)]
pub mod comm;
pub mod connect;
pub mod contents;
pub mod delegated;
pub mod dialler;
pub mod executor;
pub mod explain;
pub mod given;
pub mod hub;
pub mod interpreter;
pub mod interpreter_link;
pub mod journal;
pub mod known_members;
pub mod lan;
pub mod log;
pub mod manager;
pub mod membership;
pub mod printing;
pub mod prints;
#[cfg(target_os = "linux")]
pub mod ranks;
pub mod recruit;
pub mod rules;
pub mod space;
pub mod transfer;
pub mod turn;

#[cfg(target_os = "linux")]
mod accounts;
mod activity;
#[cfg(target_os = "linux")]
mod cgroups;
mod confined;
mod control;
mod credit;
mod dial;
mod door;
mod ending;
mod energy;
mod gpus;
#[cfg(target_os = "linux")]
mod keeper;
mod learned;
mod limits;
mod lines;
mod local;
mod metering;
mod places;
mod quota;
mod remote;
#[cfg(target_os = "linux")]
mod scratch;
mod tables;
mod threads;
mod worked;
