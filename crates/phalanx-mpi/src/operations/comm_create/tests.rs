//! What is made of a communicator is as protected as that.

use super::{Side, duplicate, join, merge, of_group, split, swap_over};
use crate::error::Class;
use crate::objects::comm::{Comm, Use, asks_for_protection};
use crate::objects::info::Info;
use crate::operations::collective::Call;
use crate::operations::collective::tests::Ranks;
use crate::operations::file;
use crate::operations::window;
use crate::process::engine::is_marked;
use phalanx_core::wire::ranks::MOST_RANKS;

fn asks(value: &str) -> Info {
    Info::of([("phalanx_secure".to_string(), value.to_string())])
}

/// Everything that can be made of a communicator of which `hints` were said.
async fn made_of(call: Call, hints: Option<&Info>) -> Vec<bool> {
    let (comm, world) = (call.comm.clone().share(), call.world);
    if let Some(hints) = hints {
        comm.heed(world, hints).expect("a known value");
    }
    let call = || Call::new(world, comm.clone());
    let unit = window::Unit::new(1).expect("positive");
    let window = window::allocate(call(), 8, unit, &Info::default()).await.expect("a window");
    let half = split(call(), (comm.rank % 2) as i32, 0, false).await.expect("a part").expect("for all");
    let other = (comm.clone(), Use::Point, (comm.rank + 1) as i32 % 2, 1);
    let across = join(Call::new(world, half.clone()), 0, (half.rank == 0).then_some(other)).await.expect("two sides");
    let all: [std::sync::Arc<Comm>; 5] = [
        duplicate(call(), false).await.expect("another"),
        of_group(call(), comm.group.clone()).await.expect("another").expect("for all"),
        duplicate(Call::new(world, across.clone()), false).await.expect("two sides"),
        merge(Call::new(world, across.clone()), false).await.expect("both sides"),
        half,
    ];
    let locals = [&across, &all[2]].map(|it| it.remote.as_ref().expect("another side").local.is_secured());
    let secured = all.iter().map(|comm| comm.is_secured()).chain(locals);
    secured.chain([across.is_secured(), window.comm.is_secured()]).collect()
}

#[test]
fn what_is_made_of_a_secured_communicator_is_secured() {
    for (hints, secured) in [(Some(asks("true")), true), (Some(asks("false")), false), (None, false)] {
        for made in Ranks::new(4).all(async |call| made_of(call, hints.as_ref()).await) {
            assert_eq!(made, [secured; 9], "{hints:?}");
        }
    }
}

#[test]
fn both_contexts_of_an_intercommunicator_are_secured() {
    let secured = Ranks::across(2, 1).all(async |call| {
        call.comm.heed(call.world, &asks("true")).expect("a known value");
        call.comm.remote.as_ref().is_some_and(|remote| remote.local.is_secured())
    });
    assert_eq!(secured, [true; 3]);
}

#[test]
fn protection_that_was_asked_for_stays_and_is_shown() {
    Ranks::new(1).all(async |call| {
        call.comm.heed(call.world, &asks("true")).expect("a known value");
        call.comm.heed(call.world, &asks("false")).expect("a known value");
        assert_eq!(call.comm.hints().get("phalanx_secure").as_deref(), Some("true"));
    });
}

#[test]
fn hints_that_mean_neither_are_refused() {
    for value in ["True", "1", "yes", ""] {
        assert_eq!(asks_for_protection(&asks(value)).expect_err("refused").class, Class::InfoValue);
        Ranks::new(1).all(async |call| {
            let unit = window::Unit::new(1).expect("positive");
            let refused = window::allocate(Call::new(call.world, call.comm.clone()), 8, unit, &asks(value))
                .await
                .err()
                .expect("refused");
            assert_eq!(refused.class, Class::InfoValue);
            let name = std::path::Path::new("/none");
            let refused =
                file::open(call.world, call.comm.clone().share(), name, 0, &asks(value)).err().expect("refused");
            assert_eq!(refused.class, Class::InfoValue);
        });
    }
}

/// Where one process asks, all know of it: from the number of the context, so before anything can come.
#[test]
fn what_one_asks_for_all_are_held_to() {
    for asker in 0..2 {
        let made = Ranks::new(4).all(async |call| {
            let (comm, world) = (call.comm.clone().share(), call.world);
            let call = || Call::new(world, comm.clone());
            let asks = comm.rank == asker;
            let half = split(call(), (comm.rank % 2) as i32, 0, false).await.expect("a part").expect("for all");
            let other = (comm.clone(), Use::Point, (comm.rank + 1) as i32 % 2, 1);
            let across =
                join(Call::new(world, half.clone()), 0, (half.rank == 0).then_some(other)).await.expect("two sides");
            let made = [
                duplicate(call(), asks).await.expect("another"),
                split(call(), 0, 0, asks).await.expect("a part").expect("for all"),
                duplicate(Call::new(world, across.clone()), asks).await.expect("two sides"),
                split(Call::new(world, across), 0, 0, asks).await.expect("a part").expect("for all"),
            ];
            made.map(|it| (is_marked(it.context), it.is_secured()))
        });
        assert_eq!(made, [[(true, true); 4]; 4], "{asker}");
    }
}

/// The leader of the other side names processes that cannot be, one too many or far too many.
#[test]
fn a_leader_that_names_processes_that_cannot_be_is_refused() {
    for named in [MOST_RANKS, u32::MAX] {
        let classes = Ranks::new(2).all(async |call| {
            let (comm, world) = (call.comm.clone().share(), call.world);
            let alone = split(Call::new(world, comm.clone()), comm.rank as i32, 0, false).await;
            let alone = alone.expect("a part").expect("for all");
            if comm.rank == 1 {
                let lie = Side { context: 4096, processes: vec![1, named] };
                swap_over(world, &comm, Use::Point, 0, 1, &lie).await.expect("an exchange");
                return None;
            }
            join(Call::new(world, alone), 0, Some((comm, Use::Point, 1, 1))).await.err().map(|error| error.class)
        });
        assert_eq!(classes, [Some(Class::NotSame), None], "{named}");
    }
}
