"""A cluster of Slurm on this machine: munged, slurmctld, and a slurmd for each node, all of Debian's."""

from __future__ import annotations

import getpass
import os
import platform
import secrets
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from laboratory.processes import Process, until

#: The programs that it needs, for :func:`laboratory.needs.lacking`.
NEEDS = ("slurmctld", "slurmd", "sbatch", "munged")
#: Seconds until a test calls something hung.
PATIENCE = 60.0
_SETTINGS = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1,requeue_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=5
MinJobAge=2
SlurmdParameters=config_overrides
PartitionName=work Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2\n"


class Cluster:
    """A cluster, whose commands find it by ``SLURM_CONF``."""

    def __init__(self, folder: Path, nodes: Sequence[str]) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        self._processes: dict[str, Process] = {}
        (folder / "state").mkdir(parents=True)
        host, user = platform.node(), getpass.getuser()
        port, *others = _free_ports(1 + len(nodes))
        text = _SETTINGS.format(host=host, port=port, user=user, folder=folder)
        text += "".join(_NODE.format(name=name, host=host, port=at) for name, at in zip(nodes, others, strict=True))
        self.conf.write_text(text)
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        self.nodes = [*nodes]

    def start(self) -> None:
        """Starts all of it, and returns when all nodes are idle."""
        files = {name: f"{self.folder}/munge.{name}" for name in ("key", "socket", "pid", "log", "seed")}
        words = [f"--key-file={files['key']}", f"--socket={files['socket']}", f"--pid-file={files['pid']}"]
        words += [f"--log-file={files['log']}", f"--seed-file={files['seed']}", "--foreground", "--force"]
        self._run("munged", ["munged", *words])
        until(Path(files["socket"]).exists, timeout=PATIENCE, what="munged")
        self._run("slurmctld", ["slurmctld", "-D", "-f", str(self.conf)])
        for node in self.nodes:
            self.start_node(node)
        for node in self.nodes:
            self.wait_for(node, "idle")

    def start_node(self, node: str) -> None:
        """Starts the daemon of a node."""
        (self.folder / f"spool-{node}").mkdir(exist_ok=True)
        self._run(node, ["slurmd", "-D", "-N", node, "-f", str(self.conf)])

    def state(self, node: str) -> str:
        """The state of a node, as sinfo shows it, without marks like ``*``."""
        return self.say("sinfo", "--noheader", "--nodes", node, "--format", "%t").strip().rstrip("*~#!%$@^-")

    def wait_for(self, node: str, *states: str) -> None:
        """Waits until a node has one of these states."""
        until(lambda: self.state(node) in states, timeout=PATIENCE, what=f"{node} to be {states}: {self.report()}")

    def jobs(self) -> list[str]:
        """The allocations that have not ended: the state and the node of each."""
        return self.say("squeue", "--array", "--noheader", "--format", "%T %N").splitlines()

    def say(self, *words: str) -> str:
        """What a command of Slurm's prints, which must succeed."""
        env = {**os.environ, "SLURM_CONF": str(self.conf)}
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=PATIENCE)
        return done.stdout if words[0] == "sinfo" or not done.returncode else f"{done.stdout}{done.stderr}"

    def report(self) -> str:
        """What the daemons have said."""
        return "\n".join(process.report() for process in self._processes.values())

    def close(self) -> None:
        """Ends all jobs, and all daemons."""
        self.say("scancel", "--user", getpass.getuser())
        until(lambda: not self.jobs(), timeout=PATIENCE, what=f"the end of all jobs: {self.report()}")
        for process in reversed(self._processes.values()):
            process.kill()

    def _run(self, name: str, words: Sequence[str]) -> None:
        env = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        files = self.folder / f"{name}-{len(self._processes)}"
        self._processes[name] = Process(words, title=name, files=files, cwd=self.folder, env=env)


@contextmanager
def cluster(folder: Path, nodes: Sequence[str] = ("n1", "n2")) -> Iterator[Cluster]:
    """A cluster for the block."""
    found = Cluster(folder, nodes)
    try:
        found.start()
        yield found
    finally:
        found.close()


def _free_ports(count: int) -> list[int]:
    """Ports where no process listens."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports
