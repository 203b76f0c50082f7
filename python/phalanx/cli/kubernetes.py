"""``phalanx kubernetes``: executors of a grid in pods of Kubernetes."""

from __future__ import annotations

import click

from phalanx import _native
from phalanx.cli._examples import examples
from phalanx.cli._joined import typed_token
from phalanx.cli._numbers import Count, Duration
from phalanx.cli._streams import printable
from phalanx.cli._suggestions import Suggesting
from phalanx.errors import IdentityError
from phalanx.pilots._manifest import MOST_NODES, check_name, job, pods_of, secret, service, to_yaml
from phalanx.pilots._order import Order
from phalanx.words import CAGES, Cage

#: Seconds without a hub after which an executor in a pod ends. A hub that is started again is back before.
_SILENCE = 600.0
#: The longest time limit: a year.
_LONGEST = 365 * 24 * 3600


@click.group(
    cls=Suggesting,
    epilog=examples(
        "phalanx kubernetes manifest --image lab/phalanx:1 --nodes 4 phalanx1-A2xhYghleGVjdXRvcg | kubectl apply -f -",
        "phalanx invite --uses 100 | phalanx kubernetes manifest --image lab/phalanx:1 - >executors.yaml",
    ),
)
def kubernetes() -> None:
    """Put executors of a grid into pods of Kubernetes."""


@kubernetes.command(
    epilog=examples(
        "phalanx invite --uses 100 --for 12h | phalanx kubernetes manifest --image lab/phalanx:1 --time 12h -",
        "phalanx kubernetes manifest --image lab/phalanx:1 --nodes 4 phalanx1-A2xhYghleGVjdXRvcg | kubectl apply -f -",
        "phalanx kubernetes manifest --image lab/phalanx:1 --cores 2 --memory 8Gi phalanx1-A2xhYghleGVjdXRvcg",
        "phalanx kubernetes manifest --image lab/phalanx:1 --accept alice --cage none phalanx1-A2xhYghleGVjdXRvcg",
    )
)
@click.argument("token", metavar="TOKEN|-")
@click.option("--image", required=True, metavar="IMAGE", help="The image of the containers, which has phalanx.")
@click.option(
    "--nodes",
    type=Count(1, MOST_NODES),
    default=1,
    show_default=True,
    help=f"The number of pods, at most {MOST_NODES}.",
)
@click.option(
    "--name",
    default="phalanx",
    show_default=True,
    metavar="NAME",
    help="The name of the Job, the Service and the Secret.",
)
@click.option("--cores", type=float, metavar="N", help="The cores of each pod. [default: as the namespace says]")
@click.option("--memory", metavar="SIZE", help="The memory of each pod, like 8Gi. [default: as the namespace says]")
@click.option(
    "--time",
    "seconds",
    type=Duration(60, _LONGEST),
    metavar="TIME",
    help="The time limit of the job: 90m, 12h, 30d, from 1m to 365d. [default: none]",
)
@click.option(
    "--user",
    type=Count(0, 2**31 - 1),
    default=10001,
    show_default=True,
    help="The account's number under which containers run, at most 2147483647.",
)
@click.option("--any-user", is_flag=True, help="Leave that number to the image and the namespace, as for OpenShift.")
@click.option(
    "--interpreters",
    type=Count(1, 4096),
    help="How many interpreters each executor offers, at most 4096. [default: one per core]",
)
@click.option("--accept", multiple=True, metavar="USER", help="Serve only this user of the grid (may be repeated).")
@click.option(
    "--cage",
    type=click.Choice(CAGES),
    default="files",
    show_default=True,
    help="What keeps users' processes apart, as for phalanx executor. Below files, --accept names one user.",
)
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="FOLDER:ro|rw",
    help="Let users read this folder of a pod (ro), or read and write it (rw); may be repeated. [default: none]",
)
def manifest(
    token: str,
    image: str,
    nodes: int,
    name: str,
    cores: float | None,
    memory: str | None,
    seconds: int | None,
    user: int,
    any_user: bool,
    interpreters: int | None,
    accept: tuple[str, ...],
    cage: Cage,
    exports: tuple[str, ...],
) -> None:
    """Print what makes pods executors of a grid.

    It is a Secret, a headless Service and an Indexed Job, in YAML, for kubectl apply -f -. TOKEN is in the line that
    phalanx up or phalanx invite has printed at the hub; with - it is read from standard input. Each pod joins the grid
    with it, and makes its private key itself. A pod that is started again joins anew: let the token have more uses than
    there are pods, and be good for as long as the job runs.

    The token is a secret, and so is what is printed.

    Programs need none of this for executors of their own: px.Kubernetes creates and removes the job.
    """
    token = typed_token(token, "phalanx join ")
    role = _native.token_parts(token)[1]
    if role != "executor":
        raise IdentityError(f"the token is for the role {printable(role)}; pods join with one for executors")
    pods = pods_of(
        image,
        nodes,
        cores=cores,
        memory=memory,
        resources=None,
        time=None if seconds is None else seconds / 60,
        user=None if any_user else user,
        python=None,
    )
    order = Order(token, interpreters, cage, exports, silence=_SILENCE, member=accept)
    check_name(name)
    click.echo(to_yaml([secret(name, order), service(name), job(name, pods)]), nl=False)
