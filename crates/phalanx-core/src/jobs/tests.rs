//! Conversations with the engine, and invariants under random events.

use super::*;
use crate::wire::hub::Facts;
use crate::wire::jobs::{Command as Words, Exit, Outcome, ProcessRow};
use proptest::prelude::*;

const ADA: Asker<'_> = Asker { user: "ada", is_owner: false };

fn spec(count: u32) -> Spec {
    let commands = vec![Words { words: vec!["true".to_owned()], ..Words::default() }];
    Spec { commands, last: count - 1, ..Spec::default() }
}

fn keyed(key: u8, spec: Spec) -> Spec {
    Spec { key: [key; 16], ..spec }
}

fn outcome(exit: Exit) -> Outcome {
    let (stdout, stderr) = (Content::Here(b"said".to_vec()), Content::default());
    let outputs = Vec::new();
    Outcome { exit, stdout, stderr, dropped: 0, outputs, began: 1000, ended: 61_000, cpu: 5, memory: 6 }
}

/// The runs that executors are told to begin.
fn runs(decided: &Decided) -> Vec<(String, Run)> {
    let runs = |command: &Command| match command {
        Command::Run { executor, job, runs } => {
            runs.iter().map(|(index, attempt)| (executor.clone(), run(*job, *index, *attempt))).collect()
        }
        _ => Vec::new(),
    };
    decided.commands.iter().flat_map(runs).collect()
}

fn stops(decided: &Decided) -> Vec<(String, Run)> {
    let stops = |command: &Command| match command {
        Command::Stop { executor, runs } => runs.iter().map(|run| (executor.clone(), *run)).collect(),
        _ => Vec::new(),
    };
    decided.commands.iter().flat_map(stops).collect::<Vec<_>>()
}

fn run(job: u64, index: u32, attempt: u32) -> Run {
    Run { job, index, attempt }
}

fn submit(jobs: &mut Jobs, key: u8, user: &str, spec: Spec) -> u64 {
    jobs.submit(1, user, keyed(key, spec)).expect("makes sense").0
}

fn enter(jobs: &mut Jobs, name: &str, room: u32) {
    let decided = jobs.enter(1, name, room, &[], Facts::new());
    assert_eq!(decided, Decided::default());
}

fn row(jobs: &Jobs, id: u64, index: u32) -> ProcessRow {
    let after = index.checked_sub(1);
    jobs.processes(ADA, id, after).expect("is a job").0.remove(0)
}

fn state(jobs: &Jobs, id: u64) -> State {
    jobs.show(ADA, id).expect("is a job").0.state
}

#[test]
fn processes_run_where_there_is_room_and_their_results_are_kept() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", spec(3));
    assert_eq!((runs(&jobs.assign()), state(&jobs, id)), (vec![], State::Queued));
    enter(&mut jobs, "ws7", 2);
    assert_eq!(runs(&jobs.assign()), [("ws7".into(), run(id, 0, 1)), ("ws7".into(), run(id, 1, 1))]);
    assert_eq!(state(&jobs, id), State::Initializing);
    jobs.began("ws7", &[run(id, 0, 1)]);
    assert_eq!((state(&jobs, id), row(&jobs, id, 0).state), (State::Running, State::Running));
    let decided = jobs.ran(2, "ws7", run(id, 0, 1), outcome(Exit::Code(0)));
    assert_eq!(decided.commands, [Command::Counted { executor: "ws7".into(), runs: vec![run(id, 0, 1)] }]);
    assert_eq!(runs(&jobs.assign()), [("ws7".into(), run(id, 2, 1))]);
    for index in [1, 2] {
        let _ = jobs.ran(3, "ws7", run(id, index, 1), outcome(Exit::Code(0)));
    }
    let (listed, _) = jobs.list(ADA, None, false);
    assert_eq!((listed[0].state, listed[0].counts.complete, listed[0].ended), (State::Complete, 3, Some(3)));
    assert_eq!(row(&jobs, id, 1).outcome, Some(outcome(Exit::Code(0))));
}

#[test]
fn the_same_request_again_is_the_same_job() {
    let mut jobs = Jobs::default();
    let (id, _) = jobs.submit(1, "ada", keyed(1, spec(1))).expect("makes sense");
    assert_eq!(jobs.submit(2, "ada", keyed(1, spec(1))), Ok((id, Decided::default())));
    assert_eq!(jobs.submit(2, "bob", keyed(1, spec(1))).map(|it| it.0), Ok(id + 1));
}

#[test]
fn a_failed_process_is_run_again_as_often_as_was_asked() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", Spec { retries: 1, ..spec(1) });
    enter(&mut jobs, "ws7", 1);
    for (attempt, exit) in [(1, Exit::Code(3)), (2, Exit::Signal(11))] {
        assert_eq!(runs(&jobs.assign()), [("ws7".into(), run(id, 0, attempt))]);
        let _ = jobs.ran(2, "ws7", run(id, 0, attempt), outcome(exit));
    }
    let (row, _) = jobs.show(ADA, id).expect("is a job");
    assert_eq!((row.state, row.why.as_str()), (State::ExecutorError, "ended by the signal 11"));
}

#[test]
fn a_run_that_is_lost_with_its_machine_is_run_again_and_counts_once() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", spec(2));
    enter(&mut jobs, "ws7", 2);
    let _ = jobs.assign();
    jobs.leave(10, "ws7");
    assert_eq!(jobs.tick(9 + LOST_AFTER), Decided::default());
    let _ = jobs.tick(10 + LOST_AFTER);
    enter(&mut jobs, "ws8", 1);
    assert_eq!(runs(&jobs.assign()), [("ws8".into(), run(id, 0, 2))]);
    // The lost machine comes back with both runs. It keeps the run that was not started again, and the other run is stopped.
    let decided = jobs.enter(99_000, "ws7", 2, &[run(id, 0, 1), run(id, 1, 1)], Facts::new());
    assert_eq!(stops(&decided), [("ws7".into(), run(id, 0, 1))]);
    assert_eq!((row(&jobs, id, 1).executor.as_deref(), row(&jobs, id, 1).losses), (Some("ws7"), 1));
    let late = jobs.ran(99_001, "ws7", run(id, 0, 1), outcome(Exit::Code(7)));
    assert_eq!((late.changes.len(), late.commands.len()), (0, 1), "it is counted, and does not count");
    for (name, run) in [("ws8", run(id, 0, 2)), ("ws7", run(id, 1, 1))] {
        let _ = jobs.ran(99_002, name, run, outcome(Exit::Code(0)));
    }
    assert_eq!(state(&jobs, id), State::Complete);
}

#[test]
fn a_hub_that_starts_again_knows_the_runs_and_waits_for_their_machines() {
    let mut jobs = Jobs::default();
    let (id, submitted) = jobs.submit(1, "ada", spec(2)).expect("makes sense");
    enter(&mut jobs, "ws7", 1);
    let assigned = jobs.assign();
    let mut again = Jobs::default();
    // The changes come in another order, because the store keeps no order.
    assigned.changes.into_iter().chain(submitted.changes).for_each(|change| again.fill(change));
    again.filled(1000);
    enter(&mut again, "ws8", 5);
    assert_eq!(runs(&again.assign()), [("ws8".into(), run(id, 1, 1))], "the other may run at ws7");
    let decided = again.enter(1001, "ws7", 1, &[run(id, 0, 1)], Facts::new());
    assert_eq!(decided, Decided::default(), "it goes on");
    let _ = again.ran(1002, "ws7", run(id, 0, 1), outcome(Exit::Code(0)));
    let _ = again.ran(1002, "ws8", run(id, 1, 1), outcome(Exit::Code(0)));
    assert_eq!(state(&again, id), State::Complete);
}

#[test]
fn a_hub_that_ended_between_two_writes_ends_what_has_ended() {
    let mut jobs = Jobs::default();
    let (first, mut changes) =
        jobs.submit(1, "ada", keyed(1, spec(1))).map(|it| (it.0, it.1.changes)).expect("is fine");
    let (second, later) = jobs.submit(1, "ada", keyed(2, Spec { after: vec![first], ..spec(1) })).expect("is fine");
    changes.extend(later.changes);
    enter(&mut jobs, "ws7", 1);
    changes.extend(jobs.assign().changes);
    let ended = jobs.ran(2, "ws7", run(first, 0, 1), outcome(Exit::Code(1))).changes;
    assert_eq!(ended.len(), 3, "the process, its job, and the job that waited for it");
    for count in 1..=2 {
        let mut again = Jobs::default();
        changes.iter().chain(&ended[..count]).for_each(|change| again.fill(change.clone()));
        // The store has the newest record only.
        again.jobs.get_mut(&first).expect("is there").record.end = match &ended[1] {
            JobChange::Job(_, Some(record)) if count == 2 => record.end.clone(),
            _ => None,
        };
        again.filled(3);
        enter(&mut again, "ws8", 9);
        assert_eq!(runs(&again.assign()), [], "the second one is not to run");
        let _ = again.tick(4);
        assert_eq!((state(&again, first), state(&again, second)), (State::ExecutorError, State::Canceled));
    }
}

#[test]
fn an_executor_that_was_started_again_has_lost_its_runs_at_once() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", spec(1));
    enter(&mut jobs, "ws7", 1);
    let _ = jobs.assign();
    let _ = jobs.enter(5, "ws7", 1, &[], Facts::new());
    assert_eq!(runs(&jobs.assign()), [("ws7".into(), run(id, 0, 2))]);
    assert_eq!(row(&jobs, id, 0).losses, 1);
}

#[test]
fn a_process_that_ends_machines_fails_after_some() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", spec(1));
    enter(&mut jobs, "ws7", 1);
    let mut attempts = 0;
    while !runs(&jobs.assign()).is_empty() {
        attempts += 1;
        let _ = jobs.enter(5, "ws7", 1, &[], Facts::new());
    }
    let (row, _) = jobs.show(ADA, id).expect("is a job");
    assert_eq!((attempts, row.state), (6, State::SystemError));
    assert!(row.why.contains("ws7 was started again") || row.why.contains("machines failed"), "{}", row.why);
}

#[test]
fn no_executor_can_tell_results_of_runs_that_it_does_not_have() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", spec(2));
    enter(&mut jobs, "ws7", 1);
    enter(&mut jobs, "mallory", 0);
    let _ = jobs.assign();
    for run in [run(id, 0, 1), run(id, 1, 1), run(id, 1, 0), run(id + 1, 0, 1)] {
        let decided = jobs.ran(2, "mallory", run, outcome(Exit::Code(0)));
        assert_eq!(decided.changes, []);
    }
    let decided = jobs.enter(3, "mallory", 0, &[run(id, 0, 1), run(id, 1, 1)], Facts::new());
    assert_eq!(stops(&decided).len(), 2);
    assert_eq!(jobs.show(ADA, id).expect("is a job").0.counts, Counts { queued: 1, running: 1, ..Counts::default() });
    assert!(jobs.serves("ws7", "ada") && !jobs.serves("mallory", "ada") && !jobs.serves("ws7", "bob"));
}

#[test]
fn a_canceled_job_ends_its_runs_and_starts_no_more() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", spec(5));
    enter(&mut jobs, "ws7", 2);
    let _ = jobs.assign();
    let (count, decided) = jobs.cancel(2, ADA, id, Some(1)).expect("is its own");
    assert_eq!((count, stops(&decided)), (1, vec![("ws7".into(), run(id, 1, 1))]));
    let (count, decided) = jobs.cancel(2, ADA, id, None).expect("is its own");
    assert_eq!((count, stops(&decided)), (4, vec![("ws7".into(), run(id, 0, 1))]));
    assert_eq!((runs(&jobs.assign()), state(&jobs, id)), (vec![], State::Canceled));
    let decided = jobs.ran(3, "ws7", run(id, 0, 1), outcome(Exit::Code(0)));
    assert_eq!(decided.changes, [], "it was canceled before");
}

#[test]
fn only_the_user_and_owners_see_a_job() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", spec(1));
    let (eve, owner) = (Asker { user: "eve", is_owner: false }, Asker { user: "zoe", is_owner: true });
    assert_eq!(jobs.show(eve, id), Err(JobRefusal::NoJob(id)));
    assert_eq!(jobs.processes(eve, id, None), Err(JobRefusal::NoJob(id)));
    assert_eq!(jobs.written(eve, id, 0), Err(JobRefusal::NoJob(id)));
    assert_eq!(jobs.cancel(2, eve, id, None), Err(JobRefusal::NoJob(id)));
    assert_eq!(jobs.forget(eve, id), Err(JobRefusal::NoJob(id)));
    assert_eq!(jobs.submit(2, "eve", Spec { after: vec![id], ..spec(1) }), Err(JobRefusal::NoJob(id)));
    assert_eq!((jobs.list(eve, None, true).0.len(), jobs.list(owner, None, false).0.len()), (0, 0));
    assert_eq!(jobs.list(owner, None, true).0.len(), 1);
    assert!(jobs.show(owner, id).is_ok());
}

#[test]
fn jobs_wait_for_others_and_are_canceled_when_these_fail() {
    let mut jobs = Jobs::default();
    let first = submit(&mut jobs, 1, "ada", spec(1));
    let second = submit(&mut jobs, 2, "ada", Spec { after: vec![first], ..spec(1) });
    let third = submit(&mut jobs, 3, "ada", Spec { after: vec![first, second], ..spec(1) });
    enter(&mut jobs, "ws7", 3);
    assert_eq!(runs(&jobs.assign()), [("ws7".into(), run(first, 0, 1))]);
    assert_eq!(jobs.show(ADA, third).expect("is a job").0.why, format!("it waits for the job {first}"));
    let _ = jobs.ran(2, "ws7", run(first, 0, 1), outcome(Exit::Code(0)));
    assert_eq!(runs(&jobs.assign()), [("ws7".into(), run(second, 0, 1))]);
    let _ = jobs.ran(3, "ws7", run(second, 0, 1), outcome(Exit::Code(1)));
    assert_eq!(state(&jobs, third), State::Canceled);
    let more = jobs.submit(4, "ada", keyed(4, Spec { after: vec![first, third], ..spec(1) }));
    assert_eq!(more.map(|it| it.0), Err(JobRefusal::Hopeless(third)));
}

#[test]
fn higher_priorities_come_first_then_users_who_run_less_then_older_jobs() {
    let mut jobs = Jobs::default();
    let long = submit(&mut jobs, 1, "ada", spec(100));
    let other = submit(&mut jobs, 2, "ada", spec(1));
    let bob = submit(&mut jobs, 3, "bob", spec(100));
    let urgent = submit(&mut jobs, 4, "ada", Spec { priority: 5, ..spec(1) });
    enter(&mut jobs, "ws7", 6);
    let order: Vec<u64> = runs(&jobs.assign()).into_iter().map(|(_, run)| run.job).collect();
    assert_eq!(order, [urgent, bob, long, bob, long, bob]);
    let _ = jobs.cancel(2, ADA, long, None);
    let next: Vec<u64> = runs(&jobs.assign()).into_iter().map(|(_, run)| run.job).collect();
    assert_eq!(next, [other, bob]);
}

#[test]
fn a_user_has_jobs_of_a_bounded_number_of_kinds_whether_they_wait_for_others_or_not() {
    let (mut jobs, mut changes) = (Jobs::default(), Vec::new());
    let first = submit(&mut jobs, 1, "ada", spec(1));
    for number in 1..MOST_KINDS as u8 {
        let (after, places) = (if number % 2 == 0 { vec![first] } else { Vec::new() }, 1 + u32::from(number));
        let wide = keyed(1 + number, Spec { after, places, ..spec(1) });
        changes.extend(jobs.submit(1, "ada", wide).expect("is fine").1.changes);
        submit(&mut jobs, 100 + number, "ada", spec(1));
    }
    let full = JobRefusal::Full("jobs with as many different needs as it compares");
    let cores = |cores| Spec { needs: Needs { cores, ..Needs::default() }, ..spec(1) };
    assert_eq!(jobs.submit(1, "ada", keyed(200, cores(1))), Err(full.clone()));
    submit(&mut jobs, 201, "eve", cores(1));
    let mut again = Jobs::default();
    changes.into_iter().for_each(|change| again.fill(change));
    again.filled(2);
    submit(&mut again, 202, "ada", cores(1));
    assert_eq!(again.submit(1, "ada", keyed(203, cores(2))), Err(full));
    let _ = jobs.cancel(1, ADA, first, None).expect("is there");
    submit(&mut jobs, 204, "ada", cores(1));
}

#[test]
fn machines_that_meet_the_needs_and_accept_the_user_get_runs() {
    let mut jobs = Jobs::default();
    let needs = Needs { cores: 4, ..Needs::default() };
    let large = submit(&mut jobs, 1, "ada", Spec { needs, ..spec(1) });
    let small = submit(&mut jobs, 2, "ada", spec(1));
    let _ = jobs.enter(1, "ws7", 1, &[], Facts::from([("cores".to_owned(), "2".to_owned())]));
    assert_eq!(runs(&jobs.assign()), [("ws7".into(), run(small, 0, 1))], "the other one keeps its turn");
    let why = jobs.show(ADA, large).expect("is a job").0.why;
    assert_eq!(why, "no machine that is here meets its needs: ws7 lacks 4 cores (it has 2)");
    let _ = jobs.enter(1, "ws8", 1, &[], Facts::from([("cores".to_owned(), "8".to_owned())]));
    assert_eq!(runs(&jobs.assign()), [("ws8".into(), run(large, 0, 1))]);
    let _ = jobs.back("ws8", &[run(large, 0, 1)], true);
    assert_eq!(runs(&jobs.assign()), [], "it does not accept ada");
}

#[test]
fn runs_that_are_short_are_sent_ahead_and_others_are_not() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", spec(100));
    enter(&mut jobs, "ws7", 2);
    assert_eq!(runs(&jobs.assign()).len(), 2);
    let quick = Outcome { ended: 1004, ..outcome(Exit::Code(0)) };
    let _ = jobs.ran(2, "ws7", run(id, 0, 1), quick);
    assert_eq!(runs(&jobs.assign()).len(), 9, "ten are there: two run, and four wait for each");
    enter(&mut jobs, "ws8", 2);
    assert_eq!(runs(&jobs.assign()).len(), 10);
}

#[test]
fn a_process_takes_all_its_places_at_one_machine() {
    let mut jobs = Jobs::default();
    let wide = submit(&mut jobs, 1, "ada", Spec { places: 4, ..spec(3) });
    let narrow = submit(&mut jobs, 2, "ada", spec(9));
    enter(&mut jobs, "ws7", 3);
    enter(&mut jobs, "ws8", 9);
    let begun = runs(&jobs.assign());
    let places = |name: &str| -> u32 {
        let of = begun.iter().filter(|(executor, _)| executor == name);
        of.map(|(_, run)| if run.job == wide { 4 } else { 1 }).sum()
    };
    assert_eq!(begun.iter().filter(|it| *it == &("ws8".to_owned(), run(wide, it.1.index, 1))).count(), 2);
    assert_eq!((places("ws7"), places("ws8")), (3, 9), "the third one is passed over: {begun:?}");
    assert_eq!(begun.iter().filter(|(_, run)| run.job == narrow).count(), 4);
    let why = |jobs: &Jobs| jobs.show(ADA, wide).expect("is a job").0.why;
    assert_eq!(why(&jobs), "", "it runs");
    // The places of the first run are free for the third run, and not for eight runs of the other job.
    let _ = jobs.ran(2, "ws8", run(wide, 0, 1), outcome(Exit::Code(0)));
    assert_eq!(runs(&jobs.assign()), [("ws8".into(), run(wide, 2, 1))]);
}

#[test]
fn the_user_whose_runs_take_the_fewest_places_is_next() {
    let mut jobs = Jobs::default();
    let ada = submit(&mut jobs, 1, "ada", Spec { places: 3, ..spec(9) });
    let bob = submit(&mut jobs, 2, "bob", spec(9));
    enter(&mut jobs, "ws7", 8);
    let order: Vec<u64> = runs(&jobs.assign()).into_iter().map(|(_, run)| run.job).collect();
    assert_eq!(order, [ada, bob, bob, bob, bob, bob], "ada's second one does not fit when it is her turn again");
}

#[test]
fn a_job_waits_with_words_if_no_machine_has_its_places() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", Spec { places: 64, ..spec(1) });
    enter(&mut jobs, "ws7", 2);
    enter(&mut jobs, "ws8", 8);
    assert_eq!(runs(&jobs.assign()), []);
    let why = |jobs: &Jobs| jobs.show(ADA, id).expect("is a job").0.why;
    let lacks = "no machine that is here has 64 places for each of its processes: ws8 has 8, ws7 has 2";
    assert_eq!(why(&jobs), lacks);
    jobs.room("ws8", 64);
    assert_eq!(why(&jobs), "it waits for 64 places at one machine");
    assert_eq!(runs(&jobs.assign()), [("ws8".into(), run(id, 0, 1))]);
}

/// Ends one run of a job at a machine. Returns the runs that begin then.
fn end_one(jobs: &mut Jobs, now: u64, name: &str, job: u64) -> Vec<(String, Run)> {
    let ended = jobs.executors[name].runs.keys().find(|run| run.job == job).copied().expect("it runs there");
    let _ = jobs.ran(now, name, ended, outcome(Exit::Code(0)));
    runs(&jobs.assign())
}

#[test]
fn a_wide_job_is_not_starved_by_narrow_ones() {
    let mut jobs = Jobs::default();
    let narrow = submit(&mut jobs, 1, "bob", spec(1000));
    enter(&mut jobs, "ws7", 4);
    enter(&mut jobs, "ws8", 2);
    assert_eq!(runs(&jobs.assign()).len(), 6);
    let wide = submit(&mut jobs, 2, "ada", Spec { places: 3, ..spec(1) });
    let why = |jobs: &Jobs| jobs.show(ADA, wide).expect("is a job").0.why;
    assert_eq!(end_one(&mut jobs, 2, "ws7", narrow).len(), 1, "at first it is passed over");
    let _ = jobs.tick(1 + keeping::BLOCKED_FOR);
    let _ = jobs.assign();
    assert_eq!(end_one(&mut jobs, 3, "ws7", narrow), [], "from now on, the machine that can hold it is kept free");
    assert_eq!(why(&jobs), "it waits for 3 places, and ws7 is kept free for it");
    assert_eq!(end_one(&mut jobs, 3, "ws8", narrow).len(), 1, "and the other one is not");
    assert_eq!(end_one(&mut jobs, 4, "ws7", narrow), []);
    assert_eq!(end_one(&mut jobs, 5, "ws7", narrow), [("ws7".into(), run(wide, 0, 1))]);
    let next = end_one(&mut jobs, 6, "ws7", narrow);
    assert_eq!((next.len(), jobs.kept.len()), (1, 0), "it has its places, and others get the rest");
}

#[test]
fn an_older_job_of_another_user_does_not_starve_a_wide_one_that_needs_all_places() {
    let mut jobs = Jobs::default();
    let narrow = submit(&mut jobs, 1, "bob", spec(1000));
    enter(&mut jobs, "ws7", 2);
    assert_eq!(runs(&jobs.assign()).len(), 2);
    let wide = submit(&mut jobs, 2, "ada", Spec { places: 2, ..spec(1) });
    assert_eq!(end_one(&mut jobs, 2, "ws7", narrow).len(), 1);
    let _ = jobs.tick(1 + keeping::BLOCKED_FOR);
    assert_eq!(end_one(&mut jobs, 3, "ws7", narrow), []);
    // Now bob has no place, and would be next because his job is older.
    assert_eq!(end_one(&mut jobs, 4, "ws7", narrow), [("ws7".into(), run(wide, 0, 1))]);
}

#[test]
fn a_machine_is_not_kept_for_a_job_that_does_not_wait_any_more() {
    let mut jobs = Jobs::default();
    let narrow = submit(&mut jobs, 1, "bob", spec(1000));
    enter(&mut jobs, "ws7", 4);
    assert_eq!(runs(&jobs.assign()).len(), 4);
    let wide = submit(&mut jobs, 2, "ada", Spec { places: 4, ..spec(1) });
    let wide_too = submit(&mut jobs, 3, "ada", Spec { places: 3, ..spec(1) });
    let _ = end_one(&mut jobs, 2, "ws7", narrow);
    let _ = jobs.tick(1 + keeping::BLOCKED_FOR);
    assert_eq!(end_one(&mut jobs, 3, "ws7", narrow), []);
    assert_eq!(jobs.kept["ada"], ("ws7".to_owned(), wide), "each user has one kept machine at most");
    // A job that comes before it in the order uses the places.
    let urgent = submit(&mut jobs, 4, "bob", Spec { priority: 1, ..spec(1) });
    assert_eq!(runs(&jobs.assign()), [("ws7".into(), run(urgent, 0, 1))]);
    let _ = jobs.ran(4, "ws7", run(urgent, 0, 1), outcome(Exit::Code(0)));
    for id in [wide, wide_too] {
        let _ = jobs.cancel(5, ADA, id, None).expect("is its own");
    }
    assert_eq!((runs(&jobs.assign()).len(), jobs.kept.len()), (1, 0));
}

#[test]
fn short_runs_of_several_places_are_not_sent_ahead() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", Spec { places: 2, ..spec(100) });
    enter(&mut jobs, "ws7", 5);
    assert_eq!(runs(&jobs.assign()).len(), 2);
    let quick = Outcome { ended: 1004, ..outcome(Exit::Code(0)) };
    let _ = jobs.ran(2, "ws7", run(id, 0, 1), quick);
    assert_eq!(runs(&jobs.assign()).len(), 1);
}

#[test]
fn a_deadline_cancels_what_is_left() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", Spec { deadline: Some(500), ..spec(2) });
    enter(&mut jobs, "ws7", 1);
    let _ = jobs.assign();
    assert_eq!(jobs.tick(499), Decided::default());
    assert_eq!(stops(&jobs.tick(500)), [("ws7".into(), run(id, 0, 1))]);
    let row = jobs.show(ADA, id).expect("is a job").0;
    assert_eq!((row.state, row.why.as_str()), (State::Canceled, "its deadline has passed"));
}

#[test]
fn ended_jobs_are_forgotten_and_others_are_not() {
    let mut jobs = Jobs::default();
    let id = submit(&mut jobs, 1, "ada", spec(3000));
    assert_eq!(jobs.forget(ADA, id), Err(JobRefusal::Goes(id)));
    enter(&mut jobs, "ws7", 3000);
    let _ = jobs.assign();
    let (_, _) = jobs.cancel(2, ADA, id, None).expect("is its own");
    let decided = jobs.forget(ADA, id).expect("has ended");
    assert_eq!(decided.changes.len(), FORGOTTEN_AT_ONCE);
    assert_eq!(jobs.show(ADA, id), Err(JobRefusal::NoJob(id)));
    let rest = jobs.tick(3);
    assert_eq!((rest.changes.len(), rest.changes.last()), (1001, Some(&JobChange::Job(id, None))));
    assert_eq!((jobs.jobs.len(), jobs.processes, jobs.users.len()), (0, 0, 0));
    let old = submit(&mut jobs, 2, "ada", spec(1));
    assert!(old > id);
    let _ = jobs.cancel(10, ADA, old, None);
    assert_eq!(jobs.tick(9 + KEPT_FOR), Decided::default());
    assert_eq!(jobs.tick(10 + KEPT_FOR).changes, [JobChange::Job(old, None)]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut jobs = Jobs::default();
    let file =
        |name: &str| crate::wire::jobs::File { name: name.to_owned(), content: Content::default(), executable: false };
    let command =
        |words: &[&str]| Words { words: words.iter().map(|it| (*it).to_owned()).collect(), ..Words::default() };
    let stdin = Words { stdin: Some("../x".into()), ..command(&["cat"]) };
    let variable = Words { environment: vec![("A=B".into(), "c".into())], ..command(&["cat"]) };
    for wrong in [
        Spec { commands: Vec::new(), ..spec(1) },
        Spec { commands: vec![command(&[""])], ..spec(1) },
        Spec { commands: vec![command(&["a\0"])], ..spec(1) },
        Spec { commands: vec![stdin], ..spec(1) },
        Spec { commands: vec![variable], ..spec(1) },
        Spec { first: 2, last: 1, ..spec(1) },
        spec(MOST_COUNT + 1),
        Spec { inputs: vec![file("/etc/passwd")], ..spec(1) },
        Spec { inputs: vec![file("a/../../b")], ..spec(1) },
        Spec { inputs: vec![file("")], ..spec(1) },
        Spec { outputs: vec!["../*".into()], ..spec(1) },
        Spec { retries: 101, ..spec(1) },
        Spec { priority: i32::MIN + 1, ..spec(1) },
        Spec { places: MOST_PLACES + 1, ..spec(1) },
        Spec { name: "x".repeat(201), ..spec(1) },
        Spec { needs: Needs { labels: vec!["a b".into()], ..Needs::default() }, ..spec(1) },
        Spec { shown: vec![("data".into(), "data".into())], ..spec(1) },
        Spec { shown: vec![("/data".into(), "../data".into())], ..spec(1) },
        Spec {
            shown: vec![("/data".into(), "data".into())],
            commands: [spec(1).commands, spec(1).commands].concat(),
            ..spec(1)
        },
    ] {
        assert!(matches!(jobs.submit(1, "eve", wrong.clone()), Err(JobRefusal::Wrong(_))), "{wrong:?}");
    }
    assert_eq!(jobs.submit(1, "eve", Spec { after: vec![7], ..spec(1) }).map(|it| it.0), Err(JobRefusal::NoJob(7)));
    assert!(matches!(jobs.submit(1, "eve", Spec { priority: i32::MIN, ..spec(1) }), Err(JobRefusal::Wrong(_))));
    for number in 0..2 {
        submit(&mut jobs, number, "eve", spec(MOST_COUNT));
    }
    assert!(matches!(jobs.submit(1, "eve", keyed(9, spec(1))), Err(JobRefusal::Full(_))));
    submit(&mut jobs, 1, "ada", spec(1));
}

/// An event at a hub.
#[derive(Debug, Clone)]
enum Event {
    Submit {
        count: u32,
        retries: u32,
        places: u32,
        after: bool,
    },
    Enter {
        name: u8,
        forgets: bool,
    },
    Leave {
        name: u8,
    },
    /// An executor ends the run of this number among its own.
    End {
        name: u8,
        number: usize,
        fails: bool,
    },
    /// An executor repeats an earlier result.
    Repeat {
        number: usize,
    },
    Back {
        name: u8,
        number: usize,
    },
    Cancel {
        number: usize,
        index: Option<u32>,
    },
    Later {
        seconds: u64,
    },
    /// The hub ends, and starts again from its store. `keeps`: the store has the newest changes.
    Restart {
        keeps: bool,
    },
}

fn events() -> impl Strategy<Value = Event> {
    let name = 0..3u8;
    prop_oneof![
        2 => (1..6u32, 0..2u32, 0..3u32, any::<bool>())
            .prop_map(|(count, retries, places, after)| Event::Submit { count, retries, places, after }),
        3 => (name.clone(), any::<bool>()).prop_map(|(name, forgets)| Event::Enter { name, forgets }),
        2 => name.clone().prop_map(|name| Event::Leave { name }),
        8 => (name.clone(), 0..9usize, any::<bool>()).prop_map(|(name, number, fails)| Event::End { name, number, fails }),
        2 => (0..9usize).prop_map(|number| Event::Repeat { number }),
        1 => (name, 0..9usize).prop_map(|(name, number)| Event::Back { name, number }),
        1 => (0..4usize, proptest::option::of(0..6u32)).prop_map(|(number, index)| Event::Cancel { number, index }),
        2 => (1..60u64).prop_map(|seconds| Event::Later { seconds }),
        1 => any::<bool>().prop_map(|keeps| Event::Restart { keeps }),
    ]
}

/// A hub with its store and its executors.
#[derive(Default)]
struct World {
    jobs: Jobs,
    now: u64,
    stored: BTreeMap<(u64, Option<u32>), JobChange>,
    /// Starts that are not on the disk yet, because the hub does not wait for them.
    unwritten: Vec<JobChange>,
    here: BTreeSet<String>,
    /// The runs that each executor really has.
    runs: BTreeMap<String, BTreeSet<Run>>,
    told: Vec<(String, Run, Outcome)>,
    /// The results that users have seen.
    shown: BTreeMap<(u64, u32), (State, Option<Outcome>)>,
    submitted: u8,
}

impl World {
    /// Stores and sends. `waits`: the driver waits until the changes are on the disk.
    fn carry_out(&mut self, decided: Decided, waits: bool) {
        self.unwritten.extend(decided.changes);
        if waits {
            self.write();
        }
        for command in decided.commands {
            match command {
                Command::Run { executor, job, runs } if self.here.contains(&executor) => {
                    let runs = runs.into_iter().map(|(index, attempt)| Run { job, index, attempt });
                    self.runs.entry(executor).or_default().extend(runs);
                }
                Command::Stop { executor, runs } | Command::Counted { executor, runs } => {
                    let own = self.runs.entry(executor).or_default();
                    own.retain(|run| !runs.contains(run));
                }
                Command::Run { .. } => unreachable!("a run for an executor that is away"),
            }
        }
    }

    fn write(&mut self) {
        for change in self.unwritten.drain(..) {
            match &change {
                JobChange::Job(id, Some(_)) => drop(self.stored.insert((*id, None), change)),
                JobChange::Job(id, None) => drop(self.stored.remove(&(*id, None))),
                JobChange::Process(id, index, Some(_)) => drop(self.stored.insert((*id, Some(*index)), change)),
                JobChange::Process(id, index, None) => drop(self.stored.remove(&(*id, Some(*index)))),
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let name = |number: u8| format!("ws{number}");
        match event {
            Event::Submit { count, retries, places, after } => {
                self.submitted += 1;
                let after = if after && self.jobs.last > 0 { vec![self.jobs.last] } else { Vec::new() };
                let spec = keyed(self.submitted, Spec { retries, places, after, ..spec(count) });
                if let Ok((_, decided)) = self.jobs.submit(self.now, "ada", spec) {
                    self.carry_out(decided, true);
                }
            }
            Event::Enter { name: number, forgets } => {
                let name = name(number);
                if forgets {
                    self.runs.remove(&name);
                }
                let runs: Vec<Run> = self.runs.get(&name).into_iter().flatten().copied().collect();
                self.here.insert(name.clone());
                let decided = self.jobs.enter(self.now, &name, 2, &runs, Facts::new());
                self.carry_out(decided, true);
            }
            Event::Leave { name: number } => {
                if self.here.remove(&name(number)) {
                    self.jobs.leave(self.now, &name(number));
                }
            }
            Event::End { name: number, number: which, fails } => {
                let name = name(number);
                let run = self.runs.get(&name).and_then(|runs| runs.iter().nth(which)).copied();
                if let Some(run) = run.filter(|_| self.here.contains(&name)) {
                    let outcome = outcome(Exit::Code(i32::from(fails)));
                    self.told.push((name.clone(), run, outcome.clone()));
                    let decided = self.jobs.ran(self.now, &name, run, outcome);
                    self.carry_out(decided, true);
                }
            }
            Event::Repeat { number } => {
                if let Some((name, run, outcome)) = self.told.get(number).cloned() {
                    let decided = self.jobs.ran(self.now, &name, run, outcome);
                    self.carry_out(decided, true);
                }
            }
            Event::Back { name: number, number: which } => {
                let name = name(number);
                let run = self.runs.get(&name).and_then(|runs| runs.iter().nth(which)).copied();
                if let Some(run) = run.filter(|_| self.here.contains(&name)) {
                    self.runs.entry(name.clone()).or_default().remove(&run);
                    let decided = self.jobs.back(&name, &[run], false);
                    self.carry_out(decided, false);
                }
            }
            Event::Cancel { number, index } => {
                let id = self.jobs.jobs.keys().nth(number).copied().unwrap_or(99);
                if let Ok((_, decided)) = self.jobs.cancel(self.now, ADA, id, index) {
                    self.carry_out(decided, true);
                }
            }
            Event::Later { seconds } => {
                self.now += seconds * 1000;
                let decided = self.jobs.tick(self.now);
                self.carry_out(decided, true);
            }
            Event::Restart { keeps } => {
                if keeps {
                    self.write();
                }
                self.unwritten.clear();
                self.here.clear();
                self.jobs = filled(&self.stored, self.now);
            }
        }
        let decided = self.jobs.assign();
        self.carry_out(decided, false);
        self.check();
    }

    /// Checks the invariants.
    fn check(&mut self) {
        for (id, job) in &self.jobs.jobs {
            let Counts { queued, running, complete, failed, lost, canceled } = job.counts;
            assert_eq!(queued + running + complete + failed + lost + canceled, job.record.spec.count(), "{job:?}");
            assert_eq!(job.record.end.is_some(), queued + running == 0, "{job:?}");
            for (index, process) in &job.processes {
                let Stage::Ended { state, outcome, .. } = &process.stage else { continue };
                let now = (*state, outcome.as_deref().cloned());
                let first = self.shown.entry((*id, *index)).or_insert_with(|| now.clone());
                assert_eq!(*first, now, "a result does not change");
            }
        }
        let there = |job: &&Job| job.record.end.is_none();
        let running: u32 = self.jobs.jobs.values().filter(there).map(|job| job.counts.running).sum();
        let of_executors: usize = self.jobs.executors.values().map(|it| it.runs.len()).sum();
        assert_eq!(running as usize, of_executors);
        let places = |job: &Job| u64::from(job.counts.running * job.record.spec.places_each());
        let taken: u64 = self.jobs.jobs.values().filter(there).map(places).sum();
        assert_eq!(self.jobs.executors.values().map(|it| it.taken).sum::<u64>(), taken);
        assert_eq!(self.jobs.users.get("ada").map_or(0, |it| it.places), taken);
    }

    /// Checks that all results that users have seen are in the store, because the driver waits for these.
    fn check_store(&self) {
        for ((id, index), (state, _)) in &self.shown {
            match self.stored.get(&(*id, Some(*index))) {
                Some(JobChange::Process(_, _, Some(it))) => {
                    assert!(matches!(&it.stage, Stage::Ended { state: other, .. } if other == state), "{it:?}");
                }
                other => panic!("{id}.{index}: {other:?}"),
            }
        }
    }
}

fn filled(stored: &BTreeMap<(u64, Option<u32>), JobChange>, now: u64) -> Jobs {
    let mut jobs = Jobs::default();
    stored.values().rev().for_each(|change| jobs.fill(change.clone()));
    jobs.filled(now);
    jobs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_process_gets_one_result_whatever_is_lost_or_repeated(events in proptest::collection::vec(events(), 1..60)) {
        let mut world = World::default();
        for event in events {
            world.happen(event);
        }
        world.write();
        world.check_store();
        // In the end two machines stay, and end all their runs.
        world.happen(Event::Restart { keeps: true });
        for name in 0..2 {
            world.happen(Event::Enter { name, forgets: false });
        }
        world.happen(Event::Later { seconds: 60 });
        for _ in 0..400 {
            for name in 0..2 {
                world.happen(Event::End { name, number: 0, fails: false });
            }
        }
        for job in world.jobs.jobs.values() {
            prop_assert!(job.record.end.is_some(), "{job:?}");
        }
        prop_assert!(world.runs.iter().all(|(name, runs)| !world.here.contains(name) || runs.is_empty()), "{:?}", world.runs);
        world.write();
        world.check_store();
        let again = filled(&world.stored, world.now);
        let (before, after) = (world.jobs.list(ADA, None, false), again.list(ADA, None, false));
        prop_assert_eq!(before, after);
    }

    #[test]
    fn no_message_of_a_peer_makes_the_engine_panic(
        runs in proptest::collection::vec((0..4u64, 0..9u32, 0..4u32), 0..20),
        told in proptest::collection::vec((0..4u64, 0..9u32, 0..4u32), 0..20),
    ) {
        let mut world = World::default();
        world.happen(Event::Submit { count: 3, retries: 1, places: 2, after: false });
        world.happen(Event::Enter { name: 0, forgets: false });
        let to_runs = |all: Vec<(u64, u32, u32)>| -> Vec<Run> {
            all.into_iter().map(|(job, index, attempt)| run(job, index, attempt)).collect()
        };
        let (runs, told) = (to_runs(runs), to_runs(told));
        let _ = world.jobs.enter(5, "ws1", u32::MAX, &runs, Facts::new());
        world.jobs.began("ws1", &told);
        let _ = world.jobs.back("ws1", &told, false);
        for run in told {
            let _ = world.jobs.ran(6, "ws1", run, outcome(Exit::Broken("no disk".into())));
            let _ = world.jobs.ran(6, "ws0", run, outcome(Exit::Late));
        }
        world.check();
    }
}
