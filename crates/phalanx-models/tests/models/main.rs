//! The models. Each of them names what can happen, and the property that holds whatever happens.

mod agreement;
mod blocks;
mod farm;
mod handshake;

use phalanx_models::{Explored, Model, explore};
use std::time::Instant;

/// Explores all of a model. These events must be among those that happen in it: a model that never gets there proves
/// nothing about them.
fn explore_all<M: Model>(name: &str, model: &M, most: usize, events: &[&str]) -> Explored {
    let began = Instant::now();
    let explored = match explore(model, most) {
        Ok(explored) => explored,
        Err(broken) => panic!("{name}: {broken:?}"),
    };
    let Explored { states, steps, ends, depth, notes } = &explored;
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}: {states} states, {steps} steps, {ends} ends, depth {depth}, {seconds:.1} s; {notes:?}");
    for event in events {
        assert!(notes.contains_key(event), "{name}: never: {event}");
    }
    explored
}
