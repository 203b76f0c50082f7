//! Runs the same work on all machines of a program in parallel.

use super::job::LaunchError;
use std::thread;

/// Runs the same work on all machines in parallel. The error lists everything that failed.
pub fn at_once<H: Sync, T: Send>(
    hosts: &[H],
    work: impl Fn(usize, &H) -> Result<T, String> + Sync,
) -> Result<Vec<T>, LaunchError> {
    let work = &work;
    let outcomes: Vec<Result<T, String>> = thread::scope(|scope| {
        let each = hosts.iter().enumerate().map(|(number, host)| scope.spawn(move || work(number, host)));
        let working: Vec<_> = each.collect();
        working.into_iter().map(|thread| thread.join().expect("talking to a host does not panic")).collect()
    });
    let (done, failed): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    match failed.is_empty() {
        true => Ok(done.into_iter().flatten().collect()),
        false => {
            let reasons: Vec<String> = failed.into_iter().filter_map(Result::err).collect();
            Err(LaunchError::Hosts(reasons.join("; ")))
        }
    }
}
