//! What programs need of machines, for `phalanx/requirements.py`.

use phalanx_core::hub::Needs;
use phalanx_core::wire::hub::Facts;
use pyo3::prelude::*;

/// What a program needs, as Python passes it: cores, memory in bytes, GPUs, software, labels, and the word of a cage.
pub type NeedsRow = (u64, u64, u64, Vec<String>, Vec<String>, String);

/// The needs that Python passes.
pub fn to_needs((cores, memory, gpus, software, labels, cage): NeedsRow) -> Needs {
    Needs { cores, memory, gpus, software, labels, cage: cage.parse().unwrap_or_default() }
}

/// Whether a text can be the name of a program, or a label.
#[pyfunction]
pub fn is_word(text: &str) -> bool {
    phalanx_core::hub::is_word(text)
}

/// The needs, each in words.
#[pyfunction]
pub fn needs_in_words(needs: NeedsRow) -> Vec<String> {
    to_needs(needs).words()
}

/// The executors of a grid, given by their names and facts, that meet the needs; and why none does, if that is so.
#[pyfunction]
pub fn meet_needs(grid: &str, needs: NeedsRow, executors: Vec<(String, Facts)>) -> (Vec<String>, Option<String>) {
    let needs = to_needs(needs);
    let meeting = executors.iter().filter(|(_, facts)| needs.are_met(facts));
    let meeting: Vec<String> = meeting.map(|(name, _)| name.clone()).collect();
    let all: Vec<_> = executors.iter().map(|(name, facts)| (name.as_str(), facts)).collect();
    let why = meeting.is_empty().then(|| needs.unmet(grid, &all));
    (meeting, why)
}
