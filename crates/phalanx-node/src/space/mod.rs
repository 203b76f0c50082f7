//! Tuple spaces as services: what is around the engine of `phalanx-core`.

pub mod log;
