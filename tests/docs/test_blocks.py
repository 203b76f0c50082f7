"""Every block that README.md and docs/ show is run, as a reader would: page by page, with real processes."""

from __future__ import annotations

import random
import re
import socket
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from docs.pages import Block, blocks, matches
from docs.reader import Reader

ROOT = Path(__file__).parents[2]
PAGES = [path for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if path.exists()]
# What executors and servers of the pages listen at.
PORT = re.compile(r"\b74(?!00)\d\d\b")


def is_free(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def with_free_ports(shown: list[Block]) -> list[Block]:
    """The blocks with free ports in place of those of the page, which may be in use, also by another page."""
    named = sorted({port for block in shown for port in PORT.findall(block.text)})
    # As long as they were, and in the same order: tables stay as they are shown.
    free = sorted(islice(filter(is_free, random.sample(range(5000, 10000), 5000)), len(named)))
    instead = dict(zip(named, map(str, free), strict=True))
    return [replace(block, text=PORT.sub(lambda port: instead[port[0]], block.text)) for block in shown]


def read(page: Path, folder: Path) -> None:
    """Run a page; AssertionError when a block does another thing than the page says."""
    shown = with_free_ports(list(blocks(page)))
    with Reader(folder) as reader:
        for block in shown:
            reader.read(block)
    for number, block in enumerate(shown):
        later = "".join(other.text for other in shown[number + 1 :])
        assert not block.file or block.file in later, f"{block.place}: nothing uses {block.file}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_is_true(page: Path, tmp_path: Path) -> None:
    read(page, tmp_path)


GOOD = """
```python
x = 20
```

<!-- run: background -->
```console
$ echo listening on $((7000 + 400)); sleep 1000
listening on 7…
```

```console
$ mkdir there && cd there
$ export NAME=me \\
> OTHER=you
```

```python
with open("there/x", "w") as file:
    file.write(str(x + 1))
```

```bash
test $(cat x) = 21
sleep 1000 &
```

```console
$ echo $NAME $OTHER; echo; echo three
me …
three
$ cat x
21
```

```python
# program.py
print("file")
```

<!-- run: no, because it is dangerous -->
```console
$ exit 1
```

```console
$ python ../program.py
file
```
"""
# A bad page, and a word of what is said about it.
BAD = {
    "a command that fails": ("```console\n$ false\n```\n", "exit code 1"),
    "other output": ("```console\n$ echo one\ntwo\n```\n", "the page shows"),
    "a Python error": ("# Title\n\n```python\nx = 1\nx.wrong\n```\n", r"page\.md\", line 5"),
    "an error when Python ends": (
        "```python\nimport atexit, os\natexit.register(os._exit, 3)\n```\n",
        "code 3",
    ),
    "a service that ends": ("<!-- run: background -->\n```console\n$ true\nready\n```\n", "exit code 0"),
    "no reason": ("<!-- run: no -->\n```python\nx\n```\n", "is no way to run"),
    "a comment without a block": ("<!-- run: background -->\ntext\n", "has no block"),
    "an unknown language": ("```shell\nls\n```\n", "say one of"),
    "no language": ("```\nls\n```\n", "say one of"),
    "an indented block": ("- item\n  ```console\n  $ ls\n  ```\n", "is indented"),
    "a file that nothing uses": ("```python\n# program.py\n```\n", "nothing uses"),
    "output before any command": ("```console\nls\n```\n", "begins with no command"),
}


def test_a_good_page_is_read_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(GOOD)
    read(tmp_path / "page.md", tmp_path)


@pytest.mark.parametrize(("page", "complaint"), BAD.values(), ids=BAD)
def test_a_bad_page_is_refused(page: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page)
    with pytest.raises(AssertionError, match=complaint):
        read(tmp_path / "page.md", tmp_path)


def test_dots_stand_for_anything() -> None:
    assert matches("took … s\n", "took 1.5 s\n")
    assert matches("one\n…\nfour", "one\ntwo\nthree\nfour")
    assert not matches("took … s", "it took 1 s")
