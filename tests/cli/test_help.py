"""Help texts: words for every option, two examples at the end, and names that a user may have meant."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from phalanx.cli import commands
from phalanx.cli._examples import examples_in
from phalanx.cli._numbers import Count, Seconds

#: Files that examples name, where a command demands that they exist.
FILES = ("hosts.txt", "access.toml")
#: Bounds that no help text names, because fields of 32 and 63 bits have them.
OF_A_FIELD = (2**32 - 1, 2**63 - 1)


def contexts() -> Iterator[click.Context]:
    """The context of each command, of groups too."""
    todo = [click.Context(commands, info_name="phalanx", **commands.context_settings)]
    while todo:
        context = todo.pop()
        yield context
        if isinstance(group := context.command, click.Group):
            for name in group.list_commands(context):
                command = group.get_command(context, name)
                assert command is not None
                todo.append(click.Context(command, info_name=name, parent=context, **command.context_settings))


CONTEXTS = {context.command_path: context for context in contexts()}
OPTIONS = {
    f"{path} {it.opts[-1]}": (context, it)
    for path, context in CONTEXTS.items()
    for it in context.command.get_params(context)
    if isinstance(it, click.Option) and not it.hidden
}
EXAMPLES = [(path, one) for path, context in CONTEXTS.items() for one in examples_in(context.command.epilog)]


def words_of(example: str) -> list[str]:
    """The words that phalanx gets, without what is for the shell."""
    found = re.search(r"phalanx (.*?)(?: [|>] .*|; .*|\)\")?$", example)
    assert found, example
    return shlex.split(found[1])


@pytest.mark.parametrize("path", CONTEXTS)
def test_a_help_text_ends_with_two_examples(path: str) -> None:
    shown = CliRunner().invoke(commands, [*path.split()[1:], "--help"]).output
    _, title, end = shown.partition("\n  Examples:\n")
    assert title
    lines = end.splitlines()
    assert len(lines) >= 2
    assert [
        line for line in lines if not line.startswith("    ") or f"{path} " not in f"{line} ".replace(";", " ")
    ] == []


def parse(example: str) -> None:
    """Parses the words of an example as its command does, without running it."""
    context, command, words = CONTEXTS["phalanx"], CONTEXTS["phalanx"].command, words_of(example)
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, found.make_context(name, words[:], parent=context)


@pytest.mark.parametrize("example", sorted({one for _, one in EXAMPLES}))
def test_an_example_can_be_parsed(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).touch()
    (tmp_path / "scans").mkdir()
    monkeypatch.chdir(tmp_path)
    parse(example)


@pytest.mark.parametrize("wrong", ["cp --strems 3 a lab:/b", "grid issue", "space info --rates 0 lab:7400/jobs"])
def test_a_wrong_example_would_be_seen(wrong: str) -> None:
    with pytest.raises(click.UsageError):
        parse(f"phalanx {wrong}")


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_explained_in_words(name: str) -> None:
    context, option = OPTIONS[name]
    record = option.get_help_record(context)
    assert record is not None
    names, text = record
    assert option.help
    assert option.help.endswith((".", "]", ".)")), "a sentence, or a default"
    assert not re.search(r"RANGE|TEXT|<=|>=", names + text)


@pytest.mark.parametrize("name", [name for name, (_, it) in OPTIONS.items() if isinstance(it.type, (Count, Seconds))])
def test_the_bounds_of_a_number_are_named(name: str) -> None:
    _, option = OPTIONS[name]
    assert isinstance(option.type, (Count, Seconds))
    assert option.help
    bounds = [option.type.most, option.type.least if option.type.least not in (0, 1) else None]
    assert [it for it in bounds if it not in (None, *OF_A_FIELD) and f"{it}" not in option.help] == []


@pytest.mark.parametrize("path", [path for path, it in CONTEXTS.items() if isinstance(it.command, click.Group)])
def test_the_lines_of_a_list_are_whole(path: str) -> None:
    shown = CONTEXTS[path].get_help()
    assert [line for line in shown.splitlines() if line.endswith("...") and "Usage:" not in line] == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("moirun -n 2 x", "Did you mean 'mpirun'"),
        ("grid isue labpc", "Did you mean 'issue'?"),
        ("known fogret lab:7400", "Did you mean 'forget'?"),
        ("sync --dryrun a lab:/b", "--dry-run"),
        ("mpirun --hots x y", "--hosts"),
    ],
)
def test_a_wrong_word_is_answered_with_the_one_that_was_meant(words: str, meant: str) -> None:
    done = CliRunner().invoke(commands, words.split())
    assert done.exit_code == 2
    assert "mean" in done.output
    assert meant in done.output


def test_a_word_that_is_like_none_gets_no_suggestion() -> None:
    done = CliRunner().invoke(commands, ["zzz"])
    assert done.exit_code == 2
    assert "No such command 'zzz'.\n" in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("cp --streams 65 a lab:/b", "65 is too large: write 64 or less."),
        ("cp --streams 0 a lab:/b", "0 is too small: write 1 or more."),
        ("cp --timeout nan a lab:/b", "nan is no number of seconds"),
        ("mpirun --patience 0.01 x", "0.01 is too small: write 0.1 or more."),
    ],
)
def test_a_number_outside_its_bounds_is_answered_in_words(words: str, told: str) -> None:
    done = CliRunner().invoke(commands, words.split())
    assert done.exit_code == 2
    assert told in done.output


@pytest.mark.parametrize("rate", ["9" * 310, "99999999999T", "1000001T", "9" * 400 + "KB"])
def test_a_rate_that_is_too_large_is_a_usage_error(rate: str) -> None:
    outcome = CliRunner().invoke(commands, ["cp", "--bwlimit", rate, "a", "lab:b"])
    assert outcome.exit_code == 2
    assert "is too large: write 1000000T or less" in outcome.output
