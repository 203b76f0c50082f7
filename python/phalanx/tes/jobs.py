"""The protocol of a queue of jobs, and the translation of tasks into jobs."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from phalanx.tes import runner
from phalanx.tes.document import is_pattern

#: The folder of a job with the files that the task sees at absolute paths.
ROOT = "root"
#: Top-level folders of machines. Beneath them, the job replaces only the exact folders that a task names.
_MACHINES = re.compile("bin|boot|dev|etc|home|lib.*|media|opt|proc|root|run|sbin|snap|srv|sys|usr|var")
#: Backend parameters, as service-info lists them. They are needs: one word, or several with commas.
PARAMETERS = ("label", "software")
_GB = 1_000_000_000
#: The limits of a hub: phalanx-core/src/jobs/check.rs and wire/jobs.rs.
MOST_OUTPUTS, MOST_SHOWN, LONGEST_PATH = 100, 64, 990
#: Paths that no task can replace: phalanx-node/src/cage/view.rs.
NEEDED = ("/home", "/opt", "/root", "/srv", "/var")
WHOLE = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")


class Job(NamedTuple):
    """A job that runs a task.

    Attributes
    ----------
    command : list of str
        The program and its arguments.
    shown : dict
        The paths at which the process sees folders of the job, and these folders.
    outputs : list of str
        Patterns (globs) of the output files, in the folder of the job.
    cores, memory, software, label
        The needs that a machine must meet. Memory is in bytes.
    """

    command: list[str]
    shown: dict[str, str]
    outputs: list[str]
    cores: int
    memory: int
    software: list[str]
    label: list[str]


class Progress(NamedTuple):
    """The progress of a job.

    Attributes
    ----------
    state : str
        A state of TES.
    why : str
        The reason for its state. May be empty.
    machine : str
        The machine that has it, or had it last. May be empty.
    began, ended : float
        Seconds since 1970. 0: not yet.
    files : dict
        The sizes of the output files in bytes, by their names in the folder of the job.
    """

    state: str
    why: str = ""
    machine: str = ""
    began: float = 0
    ended: float = 0
    files: Mapping[str, int] = MappingProxyType({})


class Jobs(Protocol):
    """A queue of jobs of several users."""

    def submit(self, user: str, name: str, key: bytes, job: Job, inputs: Iterator[tuple[str, Any]]) -> str:
        """Puts a job into the queue. Returns its id. Inputs are names in its folder, each with bytes or a file. ``key``
        is an idempotency key: a retry with the same key names the same job."""

    def progress(self, user: str, job: str) -> Progress:
        """The progress of a job."""

    def cancel(self, user: str, job: str) -> None:
        """Cancels a job, unless it has ended."""

    def read(self, user: str, job: str, name: str) -> Iterator[bytes]:
        """The bytes of an output, in pieces."""


def job_of(task: dict[str, Any]) -> Job:
    """The job that runs a task.

    Parameters
    ----------
    task
        The result of :func:`~phalanx.tes.document.read_task`.

    Returns
    -------
    Job
    """
    resources = task["resources"]
    parameters = {name.lower(): value for name, value in resources.get("backend_parameters", {}).items()}

    def words(name: str) -> list[str]:
        return [word for word in parameters.get(name, "").replace(",", " ").split() if word]

    return Job(
        command=["python", "-m", runner.__name__],
        shown={path: within(path) for path in _shown(task)},
        outputs=[runner.LOG, *(_pattern(output) for output in task["outputs"])],
        cores=math.ceil(resources.get("cpu_cores", 0)),
        memory=math.ceil(resources.get("ram_gb", 0) * _GB),
        software=words("software"),
        label=words("label"),
    )


def within(path: str) -> str:
    """The name of a task's file or folder in the folder of its job.

    Parameters
    ----------
    path
        The path in the task.

    Returns
    -------
    str
    """
    return ROOT + path


def _pattern(output: dict[str, Any]) -> str:
    inside = within(output["path"])
    return f"{inside}/**" if output["type"] == "DIRECTORY" else inside


def _shown(task: dict[str, Any]) -> list[str]:
    """The paths of folders that must be empty at the start of the task, or contain its inputs."""
    folders = {"/tmp", *task["volumes"]}
    folders.update(_folder_of(entry["path"], entry["type"]) for entry in [*task["inputs"], *task["outputs"]])
    for executor in task["executors"]:
        folders.update(filter(None, [executor.get("workdir")]))
        streams = (executor.get(name) for name in ("stdin", "stdout", "stderr"))
        folders.update(posixpath.dirname(path) for path in streams if path)
    tops = sorted({_top(folder) for folder in folders if folder != "/"})
    return [top for top in tops if not any(top.startswith(f"{other}/") for other in tops)]


def _folder_of(path: str, type_: str) -> str:
    while is_pattern(path):
        path, type_ = posixpath.dirname(path), "DIRECTORY"
    return path if type_ == "DIRECTORY" else posixpath.dirname(path)


def _top(folder: str) -> str:
    first = folder.split("/")[1]
    return folder if _MACHINES.fullmatch(first) else f"/{first}"
