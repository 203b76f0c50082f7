"""The code blocks of a documentation page, and what a page wants done with each.

A block may have, on the line above it, a comment that says how it is run:

    <!-- run: background -->          a service: runs until the page ends, once it has printed what is shown
    <!-- run: no, because REASON -->  shows what needs a prepared environment

A block whose first line is a comment with a file's name, as `# farm.py` or `// ring.c`, is that file: written, not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RUN = {"python", "console", "bash"}
SHOWN = {"c", "text", "json", "toml", "rust", "mermaid"}
BLOCK = re.compile(
    r"^(?:<!-- run: (?P<how>.*?) -->\n+)?^```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
HOW = re.compile(r"background|no, because \S.{9,}")
FILE = re.compile(r"(?:#|//) ([\w-]+\.\w+)\n")


@dataclass(frozen=True)
class Command:
    """One command of a console block, and the output shown under it."""

    text: str
    output: str


@dataclass(frozen=True)
class Block:
    """`line` is that of the first line of `text` in the page."""

    page: Path
    line: int
    language: str
    text: str
    how: str

    @property
    def place(self) -> str:
        """Where a person finds it."""
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that the block is."""
        named = FILE.match(self.text)
        return named[1] if named else None

    @property
    def commands(self) -> list[Command]:
        """The commands of a console block: each `$ ` with its continuation lines, and the output up to the next."""
        if self.language == "bash":
            return [Command(self.text, "")]
        found = re.findall(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", self.text, re.MULTILINE)
        return [Command(re.sub(r"\\\n> ", r"\\\n", command), output) for command, output in found]


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page in order; AssertionError where one is neither run nor says why not."""
    text = page.read_text()
    assert text.count("<!-- run:") == sum(match["how"] is not None for match in BLOCK.finditer(text)), (
        f"{page}: a `run:` comment has no block on the next line"
    )
    assert len(re.findall(r"^\s*```", text, re.MULTILINE)) == 2 * len(BLOCK.findall(text)), (
        f"{page}: a ``` is indented, or one is missing"
    )
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        block = Block(page, line, match["language"], match["text"], match["how"] or "")
        assert block.language in RUN | SHOWN, f"{block.place}: say one of {RUN | SHOWN} behind the ```"
        assert not block.how or HOW.fullmatch(block.how), f"{block.place}: `run: {block.how}` is no way to run it"
        assert block.language != "console" or block.text.startswith("$ "), f"{block.place}: begins with no command"
        yield block


def matches(shown: str, printed: str) -> bool:
    """Whether a command printed what the page shows, where `…` stands for anything, also several lines."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
