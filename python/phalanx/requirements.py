"""What a program needs of the machines that it runs on: needs in place of names of machines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from phalanx import _native
from phalanx.errors import ContractError
from phalanx.words import CAGES, Cage

#: Most programs, and most labels.
_MOST = 16
#: An amount of memory: MB, GB and TB count in powers of 1000, MiB, GiB and TiB in powers of 1024.
_MEMORY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(?:([KMGT])(i?)B?)?B?", re.IGNORECASE)
#: Least memory of an interpreter that is limited, in bytes. An interpreter that fires nothing has about 30 MB.
_LEAST_LIMIT = 64_000_000
#: Longest list of labels of a machine, in characters: that of a fact.
_LONGEST = 200


class Needs(NamedTuple):
    """What a program needs of each machine that it runs on, as :func:`phalanx.needs` makes it.

    Attributes
    ----------
    cores : int
        The least number of cores.
    memory : int
        The least memory, in bytes.
    gpu : int
        The least number of graphics processors.
    software : tuple of str
        Names of programs.
    label : tuple of str
        Labels that owners have given to their machines.
    wait : float
        Maximum seconds to wait for a machine that has all of it.
    cage : str
        How much the machine's cage keeps apart at least.

    Examples
    --------
    >>> import phalanx as px
    >>> px.needs(cores=2, memory="4 GB").memory
    4000000000
    """

    cores: int = 0
    memory: int = 0
    gpu: int = 0
    software: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    wait: float = 0
    cage: Cage = "none"

    def native(self) -> tuple[int, int, int, list[str], list[str], str]:
        """The needs as the native core reads them.

        Returns
        -------
        tuple
        """
        return self.cores, self.memory, self.gpu, [*self.software], [*self.label], self.cage

    def __str__(self) -> str:
        return ", ".join(_native.needs_in_words(self.native())) or "nothing"


def needs(
    *,
    cores: int = 0,
    memory: int | str = 0,
    gpu: int = 0,
    software: str | Iterable[str] = (),
    label: str | Iterable[str] = (),
    wait: float = 0,
    cage: Cage = "none",
) -> Needs:
    """What a program needs of each machine that it runs on, in place of names of machines.

    A manager recruits, and message passing programs run, only on members of a joined grid that have all of it. Each
    need is of the machine, and not of each interpreter there. Members find out by themselves what they have.

    Parameters
    ----------
    cores : int
        The least number of cores that programs of users may use, after ``--cpu``.
    memory : int or str
        The least memory that programs of users may use together: bytes, or a text like ``"4 GB"`` or ``"512 MiB"``. It
        is what the owner gives with ``--memory``, and otherwise all but a tenth of the machine's (at least 1 GiB stays
        with the owner). A machine that is sold with 8 GB therefore has less than 7 GB.
    gpu : int
        The least number of graphics processors. They count where the machine's owner grants them
        (``phalanx join --grant gpu``).
    software : str or iterable of str
        Names of programs, at most 16, which users' processes must find on their ``PATH`` and may run there. Each
        executor looks when it is asked, and again after a minute.
    label : str or iterable of str
        Labels, at most 16, which the machine's owner has given to it (``phalanx join --label lab-b``).
    wait : float
        Maximum seconds to wait for a machine that has all of it, if none is here; ``math.inf``: until one comes. The
        program starts with the first. Meanwhile the log says what each member lacks, when that changes.
    cage : str
        How much the machine must keep its users apart at least: ``"limits"``, ``"files"`` or ``"full"``, as its
        executor tells it (``phalanx members``). An executor with accounts and a filter of system calls counts as
        ``"files"``.

    Returns
    -------
    phalanx.requirements.Needs
        For ``needs=`` of a manager, of :func:`phalanx.mpirun` and of :func:`phalanx.bsprun`.

    Raises
    ------
    ContractError
        A number is negative, a text is no amount of memory, or a name is that of no program or label.

    Examples
    --------
    >>> import phalanx as px
    >>> print(px.needs(cores=2, memory="4 GB", gpu=1, software="ffmpeg", label=["lab-b", "quiet"]))
    2 cores, 4 GB of memory, 1 GPU, ffmpeg, the label lab-b, the label quiet
    >>> with px.Manager("lab", needs=px.needs(software="ffmpeg")) as manager:  # doctest: +SKIP
    ...     films = list(manager.map(encode, pictures))
    """
    return Needs(
        _number("cores", cores),
        read_memory(memory),
        _number("gpu", gpu),
        _words("software", "a program", software),
        _words("label", "a label", label),
        _seconds(wait),
        _cage(cage),
    )


def read_needs(text: str) -> Needs:
    """The needs in a text like ``cores=2,memory=4GB,software=ffmpeg,software=sox``.

    Parameters
    ----------
    text : str
        Pairs of a need and a value, with commas between them. ``software`` and ``label`` may be repeated.

    Returns
    -------
    Needs

    Raises
    ------
    ContractError
        The text is none of this.

    Examples
    --------
    >>> print(read_needs("cores=2,memory=4GB,label=lab-b"))
    2 cores, 4 GB of memory, the label lab-b
    """
    found: dict[str, list[str]] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, is_pair, value = (part.strip() for part in pair.partition("="))
        if not is_pair or name not in Needs._fields:
            words = ", ".join(f"{word}=" for word in Needs._fields)
            raise ContractError(f"{pair!r} is no need: write one of {words} with a value, and commas between needs")
        found.setdefault(name, []).append(value)
    for name in ("cores", "memory", "gpu", "wait", "cage"):
        if len(found.get(name, ())) > 1:
            raise ContractError(f"{name} is needed twice")
    numbers = {name: _digits(name, found[name][0]) for name in ("cores", "gpu", "wait") if name in found}
    lists = {name: found[name] for name in ("software", "label") if name in found}
    memory, cage = (found.get(name, [default])[0] for name, default in (("memory", "0"), ("cage", "none")))
    return needs(**numbers, **lists, memory=memory, cage=cage)  # type: ignore[arg-type]


def read_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels of a machine, each once.

    Raises
    ------
    ContractError
        One is none, or they are too long together.
    """
    found = _words("label", "a label", labels)
    if len(" ".join(found)) > _LONGEST:
        raise ContractError(f"the labels of a machine have {_LONGEST} characters at most, with a space between two")
    return found


def _number(name: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 63:
        raise ContractError(f"{name} is a whole number, 0 or more, not {number!r:.40}")
    return number


def _seconds(wait: object) -> float:
    if not isinstance(wait, int | float) or isinstance(wait, bool) or not wait >= 0:  # NaN is not
        raise ContractError(f"wait is a number of seconds, 0 or more, not {wait!r:.40}")
    return wait


def _cage(word: object) -> Cage:
    if word not in CAGES:
        raise ContractError(f"cage={word!r:.40} is none: write 'limits', 'files' or 'full'")
    return word


def _digits(name: str, text: str) -> int:
    if re.fullmatch("[0-9]{19,}", text):
        raise ContractError(f"{name}={text:.40} is too large: write 18 digits at most")
    if not re.fullmatch("[0-9]{1,18}", text):
        raise ContractError(f"{name} is a whole number, 0 or more, not {text!r:.40}")
    return int(text)


def read_memory(memory: object) -> int:
    """The bytes in a text like ``4 GB``, or in a number. Raises ContractError if it is neither."""
    if not isinstance(memory, str):
        return _number("memory", memory)
    if re.match("[0-9]{13}", memory.strip()):
        raise ContractError(f"{memory!r:.40} is too large an amount of memory: write a unit, like 4 GB or 1 TB")
    found = _MEMORY.fullmatch(memory.strip())
    if found is None:
        raise ContractError(f"{memory!r:.40} is no amount of memory: write bytes, or a text like 4 GB or 512 MiB")
    number, unit, binary = found.groups()
    size = (1024 if binary else 1000) ** ("KMGT".index(unit.upper()) + 1) if unit else 1
    return _number("memory", math.ceil(float(number) * size))


def read_limit(memory: object) -> int:
    """The bytes that an interpreter may use. Raises ContractError if none could work with so few."""
    limit = read_memory(memory)
    if limit < _LEAST_LIMIT:
        raise ContractError(
            f"memory={memory!r:.40} is too little: an interpreter alone needs about 30 MB, so give it 64 MB or more"
        )
    return limit


def _words(name: str, what: str, given: object) -> tuple[str, ...]:
    words = [given] if isinstance(given, str) else [*given] if isinstance(given, Iterable) else [given]
    for word in words:
        if not isinstance(word, str) or not _native.is_word(word):
            raise ContractError(
                f"{name}={word!r:.80} is no name of {what}: it has letters, digits and . _ + -, begins with a letter "
                "or digit, and is no path"
            )
    found = tuple(dict.fromkeys(words))
    if len(found) > _MOST:
        raise ContractError(f"{len(found)} names of {name} are more than {_MOST}")
    return found
