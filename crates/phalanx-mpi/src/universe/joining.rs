//! How a process joins its program.

use super::attending::attend;
use super::losing::lose;
use super::parents::meet_parents;
use crate::error::Result;
use crate::process::elsewhere::Early;
use crate::process::world::World;

/// Joins the program that this process was started for; without a launcher it is a program of its own.
pub fn join() -> Result<&'static World> {
    let world = World::join(attend)?;
    let Early { lost, parents } = world.take_early();
    lost.into_iter().for_each(|(rank, text)| lose(world, rank, text));
    if let Some(parents) = parents {
        meet_parents(world, &parents)?;
    }
    world.attend(); // what was read together with what was waited for
    Ok(world)
}
