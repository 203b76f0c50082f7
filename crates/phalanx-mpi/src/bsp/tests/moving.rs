//! What processes do so that a slow machine can be left.

use super::*;
use crate::universe::attending::take;
use phalanx_core::wire::ranks::ToRank;

/// What each says at so many places for checkpoints, the launcher having wished for one before these.
fn points(machines: &[u32], count: usize, wishes: &[usize]) -> Vec<Vec<Point>> {
    on_machines(machines, &folders(), |bsp| {
        bsp.saving.iter_mut().for_each(|saving| saving.every = 1000);
        let mut point = |number| {
            if bsp.pid() == 0 && wishes.contains(&number) {
                take(bsp.world, ToRank::Save);
            }
            bsp.sync().expect("all sync"); // a wish waits for a place for checkpoints
            let point = bsp.checkpoint().expect("all go on");
            if point == Point::Save {
                bsp.save(&[]).expect("there is room");
            }
            point
        };
        (0..count).map(&mut point).collect()
    })
}

#[test]
fn all_save_once_when_the_launcher_wishes_it() {
    for said in points(&[0, 0, 1], 5, &[1, 3]) {
        assert_eq!(said, [Point::GoOn, Point::Save, Point::GoOn, Point::Save, Point::GoOn]);
    }
}

#[test]
fn process_0_knows_how_long_all_have_worked() {
    let limit = Limit { times: 1.5, steps: 1 };
    let found = on_machines(&[0, 1], &folders(), |bsp| {
        bsp.moving = Moving::new(limit, bsp.pid(), vec![0, 1]);
        if bsp.pid() == 1 {
            std::thread::sleep(std::time::Duration::from_millis(1100)); // works more than a second
        }
        bsp.sync().expect("all sync");
        bsp.sync().expect("all sync");
        bsp.moving.slow()
    });
    assert!(found[0].is_some_and(|slow| slow.process == 1 && slow.steps == 1), "{found:?}");
    assert_eq!(found[1], None, "one tells the launcher");
}

#[test]
fn who_has_nobody_to_keep_its_checkpoint_stays() {
    let refused = |machines: &[u32]| {
        on_machines(machines, &folders(), |bsp| bsp.leave_machine().map_err(|error| error.text)).swap_remove(0)
    };
    assert!(refused(&[0, 0]).is_err_and(|text| text.contains("all processes are on one machine")));
    assert_eq!(refused(&[0, 1]), Ok(()));
    let unsaved = together(2, |bsp| bsp.leave_machine().map_err(|error| error.text));
    assert!(unsaved[0].as_ref().is_err_and(|text| text.contains("makes no checkpoints")));
}
