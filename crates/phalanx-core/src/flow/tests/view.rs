//! What a page is told while a run goes on, and afterwards.

use super::Grid;
use super::plan::{Plan, Stream, milliseconds};

/// 100 tasks of 30 ms on two interpreters, of which the user tells the number.
fn plan() -> Plan {
    let mut stream = Stream { tasks: 100, grains: vec![milliseconds(30)], ..Stream::default() };
    stream.options.size = Some(100);
    Plan { streams: vec![stream], ..Plan::default() }
}

#[test]
fn a_view_in_the_middle_tells_progress_windows_and_round_trips() {
    let grid = Grid::run_until(plan(), milliseconds(600));
    let view = grid.engine.view(grid.now);
    assert_eq!((view.wanted, view.recruiting, view.runs.len(), view.interpreters.len()), (2, 0, 1, 2));
    let run = &view.runs[0];
    assert_eq!((run.run, run.size, run.ended, run.batch), (grid.readers[0].run, Some(100), false, 1));
    assert!(run.settled > 0 && run.settled < run.fed && run.fed <= 100, "{run:?}");
    assert!(run.task.is_some_and(|task| (0.029..0.035).contains(&task)), "{run:?}");
    for it in &view.interpreters {
        assert!(it.firings >= 1 && it.tasks >= 1 && it.busy_for < 0.06, "{it:?}");
        assert!(it.round_trip > 0.0 && it.round_trip < 0.03, "{it:?}");
    }
}

#[test]
fn a_view_at_the_end_has_idle_interpreters_and_no_open_run() {
    let grid = Grid::run(plan());
    let view = grid.engine.view(grid.now);
    assert!(view.runs.iter().all(|run| run.ended && run.settled == 100), "{view:?}");
    assert!(view.interpreters.iter().all(|it| (it.firings, it.tasks) == (0, 0) && it.busy_for == 0.0), "{view:?}");
}
