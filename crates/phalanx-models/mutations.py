"""Shows that the models can fail: breaks a copy of the sources by one line, and expects that the checker finds it.

`make mutations` runs this. A mutation that is not found is an error, and so is one whose line is not there any more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FLOW = "crates/phalanx-core/src/flow"
BLOCKS = ("crates/phalanx-net/src/blocks", "crates/phalanx-net/src/seal.rs")


class Mutation(NamedTuple):
    """A line of a file, another one in its place, and what that does."""

    does: str
    file: str
    line: str
    other: str = ""

    def models(self) -> list[str]:
        """Arguments that choose the models of the broken part. Those of farms take longest."""
        if self.file.startswith(FLOW):
            return ["farm"]
        return ["blocks"] if self.file.startswith(BLOCKS) else ["--skip", "farm"]


MUTATIONS = [
    Mutation(
        "a lost interpreter's work is not fired again",
        f"{FLOW}/losses.rs",
        "            self.hand_back(firing.race, works, Engine::put_back);",
    ),
    Mutation(
        "the work of a lost race is fired again",
        f"{FLOW}/losses.rs",
        "            Race::Lost => {}",
        "            Race::Lost => works.rev().for_each(|work| back(self, work)),",
    ),
    Mutation(
        "both answers of a race count",
        f"{FLOW}/straggler.rs",
        "        self.set_race(other, firing, Race::Lost);",
    ),
    Mutation(
        "the survivor of a race takes it for lost",
        f"{FLOW}/straggler.rs",
        "        self.set_race(other, firing, Race::Alone);",
        "        self.set_race(other, firing, Race::Lost);",
    ),
    Mutation(
        "a message of a lost interpreter counts",
        f"{FLOW}/answers.rs",
        "        if !self.interpreters.contains_key(&id) {",
        "        if false {",
    ),
    Mutation(
        "answered tasks stay in flight",
        f"{FLOW}/answers.rs",
        "        head.answered += tasks;",
    ),
    # Results of another firing are refused by `check_given` too. Exceptions are refused here alone.
    Mutation(
        "answers may be of any firing",
        f"{FLOW}/answers.rs",
        "front_mut().filter(|head| head.id == firing && head.tasks() >= tasks);",
        "front_mut().filter(|head| head.tasks() >= tasks);",
    ),
    Mutation(
        "results are delivered as they come",
        f"{FLOW}/run.rs",
        "        if !self.options.ordered {",
        "        if true {",
    ),
    Mutation(
        "a run ends with its stream",
        f"{FLOW}/run.rs",
        "        let ends = self.stream_ended && self.settled == self.fed && !self.ended;",
        "        let ends = self.stream_ended && !self.ended;",
    ),
    Mutation(
        "a server takes levels that it has not offered",
        "crates/phalanx-net/src/tls.rs",
        "    if let Some(level) = not_offered(levels, offer.levels) {",
        "    if let Some(level) = not_offered(levels, [LevelSet::EVERY; 3]) {",
    ),
    Mutation(
        "a server takes a changed preamble",
        "crates/phalanx-net/src/tls.rs",
        "    if choice != choice_of(levels, said) {",
        "    if choice[..WORD] != choice_of(levels, said)[..WORD] {",
    ),
    Mutation(
        "a client that has chosen ahead does not check the offer",
        "crates/phalanx-net/src/tls.rs",
        "            check_offered(self.levels, offer.levels)?;",
    ),
    Mutation(
        "a client takes less than its policy wishes",
        "crates/phalanx-core/src/level/policy.rs",
        "own.both(peer).levels().find(|agreed| *agreed >= level).ok_or_else(|| conflict(own))?;",
        "own.both(peer).levels().next().ok_or_else(|| conflict(own))?;",
    ),
    Mutation(
        "a receiver takes blocks of every level",
        "crates/phalanx-net/src/blocks/opener.rs",
        "        if !self.carried.contains(&level) {",
        "        if false {",
    ),
    Mutation(
        "records behind a handshake count as one",
        "crates/phalanx-net/src/tls.rs",
        "        count += 1;",
        "        count = 1;",
    ),
    Mutation(
        "a client does not count its choice",
        "crates/phalanx-net/src/tls.rs",
        "const CHOICES: u64 = 1;",
        "const CHOICES: u64 = 0;",
    ),
    Mutation(
        "a client that has chosen ahead counts the last record only",
        "crates/phalanx-net/src/tls.rs",
        "        self.records += count(record);",
        "        self.records = count(record);",
    ),
    Mutation(
        "a client that has chosen ahead begins at 0, whatever it has heard",
        "crates/phalanx-net/src/tls.rs",
        "            self.open.begin_at(number);",
    ),
    Mutation(
        "a receiver begins at 0, whatever it has heard",
        "crates/phalanx-net/src/blocks/opener.rs",
        "        self.keys.iter_mut().for_each(|keys| keys.begin_at(number));",
    ),
    Mutation(
        "keys begin at 0, whatever was heard",
        "crates/phalanx-net/src/seal.rs",
        "        self.secrets.number = number;",
    ),
    Mutation(
        "a key is never updated",
        "crates/phalanx-net/src/seal.rs",
        "        let is_due = self.secrets.number >= RECORDS_PER_KEY;",
        "        let is_due = false;",
    ),
    Mutation(
        "a key is updated one record late",
        "crates/phalanx-net/src/seal.rs",
        "        let is_due = self.secrets.number >= RECORDS_PER_KEY;",
        "        let is_due = self.secrets.number > RECORDS_PER_KEY;",
    ),
    Mutation(
        "a key update is not sent",
        "crates/phalanx-net/src/blocks/sealer.rs",
        "                out.extend_from_slice(&update);",
    ),
    Mutation(
        "a receiver keeps its key at an update",
        "crates/phalanx-net/src/seal.rs",
        "                self.update();",
    ),
    Mutation(
        "a key update does not begin at 0",
        "crates/phalanx-net/src/seal.rs",
        "            number: 0,",
        "            number: self.secrets.number,",
    ),
    Mutation(
        "an update keeps the key of private blocks",
        "crates/phalanx-net/src/seal.rs",
        '            traffic: derive_label(&traffic, b"traffic upd"),',
        "            traffic: self.secrets.traffic.clone(),",
    ),
    Mutation(
        "an update keeps the key of safe blocks",
        "crates/phalanx-net/src/seal.rs",
        '            exported: derive(&exported, &[b"phalanx next"]),',
        "            exported: self.secrets.exported.clone(),",
    ),
    Mutation(
        "unprotected blocks are not counted",
        "crates/phalanx-net/src/blocks/opener.rs",
        "        self.keys.iter_mut().for_each(Context::pass);",
    ),
    Mutation(
        "blocks are not numbered",
        "crates/phalanx-net/src/seal.rs",
        "        self.secrets.number += 1;",
    ),
]


def stale() -> list[str]:
    """What is wrong with the lines of mutations that do not apply to the sources any more, for people."""
    wrong = [it for it in MUTATIONS if (ROOT / it.file).read_text().count(it.line) != 1]
    return [f"{it.does}: {it.file} has not once: {it.line.strip()}" for it in wrong]


def mutate(folder: Path, mutation: Mutation) -> str:
    """The first line of what the checker says about a copy with this mutation. Empty: it finds nothing."""
    file = folder / mutation.file
    text = file.read_text()
    file.write_text(text.replace(mutation.line, mutation.other))
    try:
        return check(folder, mutation.models())
    finally:
        file.write_text(text)


def check(folder: Path, models: Sequence[str] = ()) -> str:
    """Runs models, by default all. Anything but a property that is broken is an error."""
    command = ["cargo", "test", "--locked", "--release", "-p", "phalanx-models", "--test", "models", "--", *models]
    # Not that of the sources: cargo takes what was compiled last for what they say.
    environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target" / "mutations")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "running " in done.stdout, done.stderr
    said = done.stdout.splitlines()
    found = [said[at + 1] for at, line in enumerate(said[:-1]) if line.startswith("thread ") and "models/" in line]
    return "" if done.returncode == 0 else (found or ["a panic"])[-1]


def main() -> int:
    """Tries every mutation whose words are among the arguments; all of them without arguments."""
    if wrong := stale():
        sys.exit("\n".join(wrong))
    chosen = [it for it in MUTATIONS if len(sys.argv) < 2 or any(word in it.does for word in sys.argv[1:])]
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        # Files are new: cargo would take those with the times of the sources for what the last run has compiled.
        for name in ("Cargo.toml", "Cargo.lock", "clippy.toml"):
            shutil.copy(ROOT / name, folder / name)
        shutil.copytree(ROOT / "crates", folder / "crates", copy_function=shutil.copy)
        assert not check(folder), "the models find something without a mutation"
        for mutation in chosen:
            found = mutate(folder, mutation)
            missed += not found
            print(f"{mutation.does}: {found or 'NOT FOUND'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mutations were found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
