"""The section of parameters in docstrings, as Griffe needs it."""

from __future__ import annotations

import re

SECTION = re.compile(r"(?<=^Parameters\n----------\n).*?(?=^\w+\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
#: One parameter or several, their type, and what they mean.
PARAMETERS = re.compile(
    r"^(?P<names>[*\w]+(?:, [*\w]+)*)(?: : (?P<type>.*))?\n(?P<meaning>(?:    .*\n|\n(?=    ))+)", re.MULTILINE
)
#: A type that lists the words that an option takes.
WORDS = re.compile(r"\{(.*)\}(?:, optional| or None| or str, optional)?")


def with_parameters_apart(text: str) -> str:
    """A docstring in which each parameter stands alone, so that Griffe finds the type of each in the signature.

    Griffe takes the first word of ``{"a", "b"}`` for the default value. So the words become part of the meaning.

    Parameters
    ----------
    text : str
        The docstring, without its indentation.

    Returns
    -------
    str
        The docstring with one entry for each parameter.
    """
    return SECTION.sub(lambda section: PARAMETERS.sub(_apart, section[0] + "\n"), text)


def _apart(parameters: re.Match[str]) -> str:
    words = WORDS.fullmatch(parameters["type"] or "")
    said = f"    One of {', '.join(f'``{word}``' for word in words[1].split(', '))}.\n" if words else ""
    kind = f" : {parameters['type']}" if parameters["type"] and not words else ""
    return "".join(f"{name}{kind}\n{said}{parameters['meaning']}" for name in parameters["names"].split(", "))
