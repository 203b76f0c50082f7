//! Tuple spaces for `phalanx/space`: values and templates both ways, and the engine in this process.

mod array;
mod classes;
mod decode;
mod encode;
mod template;
