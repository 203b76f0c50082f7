"""Executors in pods of Kubernetes: a server that answers as Kubernetes', whose pods are processes of this machine."""

from __future__ import annotations

import itertools
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import phalanx as px
import pytest
from api.conftest import Script as Script
from api.conftest import script as script
from click.testing import CliRunner
from conftest import Eventually
from phalanx._grids import ask_members
from phalanx.cli import commands
from phalanx.errors import RecruitError
from phalanx.pilots._manifest import job, pods_of, secret, service, to_yaml
from phalanx.pilots._order import Order
from phalanx.pilots._own_grid import OwnGrid
from pilots.fake_kubernetes import IMAGE, NAMESPACE, TOKEN, Cluster, cluster
from pilots.programs import executors, square, where
from pilots.schemas import complaints

pytest.importorskip("kubernetes")
pytest.importorskip("jsonschema")


@pytest.fixture
def lab(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with cluster(tmp_path / "cluster") as found:
        monkeypatch.setenv("KUBECONFIG", str(found.contexts))
        # The client reads it when it is imported.
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(found.contexts))
        monkeypatch.setattr("kubernetes.config.KUBE_CONFIG_DEFAULT_LOCATION", str(found.contexts))
        yield found


def test_each_pod_has_an_executor_which_ends_with_the_manager(lab: Cluster, eventually: Eventually) -> None:
    pilot = px.Kubernetes(IMAGE, nodes=2, at_least=2, interpreters=1, cores=1, memory="1Gi", time="1:00:00")
    with px.Manager(pilot) as manager:
        assert list(manager.map(square, range(100))) == [number**2 for number in range(100)]
        names = sorted(it.name for it in pilot.executors())
        (job,), (told,), (named,) = lab.of("jobs"), lab.of("secrets"), lab.of("services")
        name = job["metadata"]["name"]
        assert names == [f"{name}-0", f"{name}-1"]
        assert job["spec"]["activeDeadlineSeconds"] == 3600
        assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
        assert named["spec"]["clusterIP"] == "None"
        assert [it["metadata"]["ownerReferences"][0]["uid"] for it in (told, named)] == [job["metadata"]["uid"]] * 2
        assert lab.requests[:4] == ["post jobs", "post secrets", "post services", "patch jobs"]
    assert not pilot.is_started
    assert not lab.objects
    eventually(lambda: not lab.running() and not executors(), what="the end of the pods")


def test_a_pod_that_is_evicted_is_a_loss_that_is_survived(lab: Cluster, eventually: Eventually) -> None:
    pilot = px.Kubernetes(IMAGE, nodes=2, at_least=2, interpreters=1)
    with px.Manager(pilot, contract=px.ParDegree(2)) as manager:
        results = manager.compute(where, range(200))
        found = [next(results)]
        first = lab.running()[0]
        first.evict()
        assert len([*found, *results]) == 200
        eventually(lambda: len(lab.running()) == 2 and first.code is not None, what="the pod that is started again")
        assert first.code == 128 + signal.SIGTERM  # or else Kubernetes would take its index for done
        eventually(lambda: len(pilot.executors()) == 2, what="the executor that is started again")
        assert any("its machine is closed" in it.cause for it in manager.summary().interpreters if it.cause)


def test_a_pod_that_is_killed_is_a_loss_that_is_survived(lab: Cluster, eventually: Eventually) -> None:
    pilot = px.Kubernetes(IMAGE, nodes=2, at_least=2, interpreters=1)
    with px.Manager(pilot) as manager:
        results = manager.compute(where, range(200))
        found = [next(results)]
        lab.running()[0].signal(signal.SIGKILL)
        assert len([*found, *results]) == 200
        eventually(lambda: len(pilot.executors()) == 2, what="the executor that is started again")


@pytest.mark.filterwarnings("ignore::phalanx.errors.ContractWarning")
def test_pods_come_and_go_with_the_contract(
    lab: Cluster, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.pilots._elastic._IDLE", 2.0)
    pilot = px.Kubernetes(IMAGE, nodes=1, at_most=2, interpreters=1)
    with px.Manager(pilot, contract=px.Throughput(80)) as manager:
        for pods in (2, 3):  # in all: each has an index of its own
            results = manager.compute(where, itertools.count())
            eventually(lambda: len({next(results) for _ in range(50)}) == 2, timeout=60, what="a second pod")  # noqa: B023
            results.close()
            # On a busy machine, a pod may be given back before the manager has recruited it.
            assert len(lab.pods) == lab.of("jobs")[0]["spec"]["completions"] >= pods
            short = manager.compute(square, itertools.count(1))
            eventually(lambda: next(short) and len(lab.running()) == 1, timeout=60, what="one pod")  # noqa: B023
            short.close()
        assert (
            sum(pod.code == 0 for pod in lab.pods) == len(lab.pods) - 1
        )  # so that Kubernetes does not start them again
        assert not any(it.state == "lost" for it in manager.summary().interpreters)


def test_pods_end_well_when_the_program_is_killed(lab: Cluster, script: Script, eventually: Eventually) -> None:
    program = script(
        """
        import sys, time
        import phalanx as px

        with px.Manager(px.Kubernetes(sys.argv[1], nodes=2, at_least=2)) as manager:
            print(manager.submit(abs, -1).result(), flush=True)
            time.sleep(600)
        """,
        IMAGE,
        KUBECONFIG=str(lab.contexts),
    )
    program.line("1", timeout=60)
    lab.running()[0].evict()  # its next pod may find no program any more
    program.kill()
    eventually(lambda: not lab.running(), timeout=60, what="the end of the pods")
    eventually(lambda: lab.of("jobs")[0]["status"].get("conditions"), what="the end of the job")
    (condition,) = lab.of("jobs")[0]["status"]["conditions"]
    assert condition["type"] == "Complete"
    with px.Kubernetes(IMAGE):  # removes what the killed program has left
        pass


@pytest.mark.parametrize("python", [None, sys.executable])
def test_all_models_run_there(lab: Cluster, tmp_path: Path, python: str | None) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("text")
    options = {"interpreters": 2, "export": f"{tmp_path}/there:rw", "python": python}
    with px.Kubernetes(IMAGE, **options) as pilot:  # type: ignore[arg-type]
        grid = px.Grid(pilot)
        (machine,) = grid.machines
        with grid.space(f"{machine}/jobs") as space:
            space.out("todo", 7)
            assert space.in_("todo", int) == ("todo", 7)
        assert grid.copy(tmp_path / "file", f"{machine}:{tmp_path}/there/file").files == 1
        (tmp_path / "sum.py").write_text("from mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(3))\n")
        done = grid.mpirun(["python", tmp_path / "sum.py"], n=2, capture_output=True)
        assert (done.stdout or "").split() == ["6", "6"]
        with grid.manager() as manager:
            assert manager.submit(square, 3).result() == 9
    assert (tmp_path / "there" / "file").read_text() == "text"


def test_errors_of_the_cluster_are_told(lab: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.refused = {"post secrets"}
    with pytest.raises(RecruitError, match='Kubernetes refuses: secrets is forbidden: User "ada" cannot post'):
        px.Manager(px.Kubernetes(IMAGE))
    assert not lab.objects  # the job that was created already is removed
    lab.refused = {"get pods/log"}
    with pytest.raises(RecruitError, match=r"the pods of the job phalanx-\w+ fail(\n|$)"):
        px.Manager(px.Kubernetes(IMAGE, python="/no/python", user=0))
    lab.refused = set()
    with pytest.raises(
        RecruitError, match=r"the pods of the job phalanx-\w+ fail; an executor has printed: .*/no/python"
    ):
        px.Manager(px.Kubernetes(IMAGE, python="/no/python", user=0))
    with pytest.raises(RecruitError, match=r"came within 1 s: the pods of .* are waiting \(ImagePullBackOff: Back-off"):
        px.Manager(px.Kubernetes("no/image:1", wait=1))
    lab.has_room = False
    with pytest.raises(RecruitError, match=r"pending \(Unschedulable: 0/3 nodes are available: 3 Insufficient cpu"):
        px.Manager(px.Kubernetes(IMAGE, wait=1))
    with pytest.raises(RecruitError, match="Kubernetes refuses: Unauthorized"):
        px.Manager(px.Kubernetes(IMAGE, context="eve", namespace="lab"))
    with pytest.raises(RecruitError, match=r"there is no cluster of Kubernetes: .*no-such"):
        px.Manager(px.Kubernetes(IMAGE, context="no-such"))
    assert not lab.objects


def test_pods_that_cannot_reach_the_program_are_told(lab: Cluster) -> None:
    # A network that no machine has: RFC 5737.
    with pytest.raises(
        RecruitError, match=r"the job phalanx-\w+ has ended \(CompletionsReached.*has printed: .*ended: "
    ):
        px.Manager(px.Kubernetes(IMAGE, address="192.0.2.1"))


def test_a_cluster_that_does_not_answer_is_told(lab: Cluster, home: Path) -> None:
    lab._server.shutdown()
    lab._server.server_close()
    with pytest.raises(RecruitError, match=r"Kubernetes does not answer at https://127\.0\.0\.1"):
        px.Manager(px.Kubernetes(IMAGE))


def test_a_job_that_is_deleted_is_told(lab: Cluster, eventually: Eventually) -> None:
    with px.Kubernetes(IMAGE, interpreters=1) as pilot:
        pilot.hosts()
        lab._delete(lab.of("jobs")[0]["metadata"]["name"], {"propagationPolicy": "Background"})
        assert pilot._failure(0) == f"the job {pilot._job} is not there any more"
        eventually(lambda: not lab.running(), what="the end of the pods")


def test_a_program_in_a_pod_uses_the_account_of_the_pod(
    lab: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("token", TOKEN), ("namespace", NAMESPACE)):
        (tmp_path / name).write_text(text)
    address = json.loads(lab.contexts.read_text())["clusters"][0]["cluster"]["server"]
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", address.rpartition(":")[2])
    incluster = "kubernetes.config.incluster_config"
    monkeypatch.setattr(f"{incluster}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{incluster}.SERVICE_CERT_FILENAME", str(lab.folder / "server.pem"))
    monkeypatch.setattr("kubernetes.config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.setattr("phalanx.pilots.kubernetes._NAMESPACE", tmp_path / "namespace")
    with px.Manager(px.Kubernetes(IMAGE, interpreters=1)) as manager:
        assert manager.submit(square, 3).result() == 9
    assert not lab.objects


def test_without_the_client_the_error_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(RecruitError, match=r"px\.Kubernetes needs the official client: pip install kubernetes"):
        px.Manager(px.Kubernetes(IMAGE))


def test_what_is_sent_keeps_to_the_schemas_of_kubernetes() -> None:
    import yaml

    pods = pods_of(
        IMAGE,
        4,
        cores=0.5,
        memory="8Gi",
        resources={"nvidia.com/gpu": 1},
        time="2-00:00:00",
        user=None,
        python=None,
        pod={"nodeSelector": {"disk": "ssd"}, "volumes": [{"name": "cache", "emptyDir": {}}]},
        container={"env": [{"name": "A", "value": "yes"}], "securityContext": {"readOnlyRootFilesystem": True}},
    )
    documents = [secret("a", Order("phalanx1-abc")), service("a"), job("a", pods)]
    assert [complaints(it) for it in documents] == [[], [], []]
    assert list(yaml.safe_load_all(to_yaml(documents))) == documents
    spec = documents[2]["spec"]["template"]["spec"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert [it["name"] for it in spec["volumes"]] == ["order", "cache"]
    assert spec["containers"][0]["resources"]["limits"] == {"cpu": "0.5", "memory": "8Gi", "nvidia.com/gpu": "1"}
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert complaints({**documents[2], "specs": {}}) != []


@pytest.mark.parametrize("users", ["--accept me --cage none", "--cage limits --accept me", ""])
def test_a_manifest_makes_pods_executors_of_a_grid(lab: Cluster, eventually: Eventually, users: str) -> None:
    import yaml

    words = ["kubernetes", "manifest", "--image", IMAGE, "--nodes", "2", "--interpreters", "1", "--time", "2h"]
    with closing(OwnGrid()) as grid:
        given = f"phalanx join {grid.token()}\n"
        done = CliRunner().invoke(commands, [*words, *users.split(), "-"], input=given, catch_exceptions=False)
        documents = list(yaml.safe_load_all(done.output))
        assert [it["kind"] for it in documents] == ["Secret", "Service", "Job"]
        for document in documents:  # as kubectl apply does
            lab.answer("post", f"{document['kind'].lower()}s", "", "", {}, document)
        eventually(lambda: len(grid.executors()) == 2, what="the executors")
        assert sorted(it.name for it in grid.executors()) == ["phalanx-0", "phalanx-1"]
        with px.Manager(grid.hosts(), identity=grid.joined.user) as manager:
            assert list(manager.map(square, range(20))) == [number**2 for number in range(20)]
        lab.answer("delete", "jobs", "phalanx", "", {"propagationPolicy": "Background"}, None)
        eventually(lambda: not lab.running(), what="the end of the pods")
        assert [it.name for it in ask_members(grid.joined) if it.role == "executor"] == []  # they have left the grid


@pytest.fixture(scope="module")
def token() -> str:
    """That of a grid that is gone."""
    with closing(OwnGrid()) as grid:
        return grid.token()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--image", "a b", "TOKEN"], "image is the name"),
        (["--image", "i", "--cores", "0", "TOKEN"], "cores is a number"),
        (["--image", "i", "--cores", "nan", "TOKEN"], "cores is a number"),
        (["--image", "i", "--memory", "much", "TOKEN"], "'memory' is an amount"),
        (["--image", "i", "--name", "A", "TOKEN"], "'A' is no name of a job"),
        (["--image", "i", "no-token"], "no token"),
        (["--image", "i", "--time", "5s", "TOKEN"], "write 1m or more"),
        (["TOKEN"], "Missing option '--image'"),
    ],
)
def test_wrong_words_of_a_manifest_are_refused(token: str, words: list[str], complaint: str) -> None:
    given = [token if word == "TOKEN" else word for word in words]
    done = CliRunner().invoke(commands, ["kubernetes", "manifest", *given])
    assert complaint in f"{done.output}{done.exception}"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: px.Kubernetes(""), "image is the name"),
        (lambda: px.Kubernetes("a b"), "image is the name"),
        (lambda: px.Kubernetes(IMAGE, nodes=0), "nodes is a number from 1 to 65536"),
        (lambda: px.Kubernetes(IMAGE, at_least=2), "is more than nodes"),
        (lambda: px.Kubernetes(IMAGE, cores=0), "cores is a number from"),
        (lambda: px.Kubernetes(IMAGE, cores=True), "cores is a number from"),
        (lambda: px.Kubernetes(IMAGE, memory="8 GB"), "'memory' is an amount like 2 or '8Gi'"),
        (lambda: px.Kubernetes(IMAGE, resources={"nvidia.com/gpu": -1}), "'nvidia.com/gpu' is an amount"),
        (lambda: px.Kubernetes(IMAGE, time="soon"), "time is like"),
        (lambda: px.Kubernetes(IMAGE, user=-1), "user is the number"),
        (lambda: px.Kubernetes(IMAGE, pod=[]), "pod has fields"),  # type: ignore[arg-type]
    ],
)
def test_wrong_options_are_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(RecruitError, match=complaint):
        make()
