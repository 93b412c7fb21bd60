"""From an assignment to the command that runs it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.records import Order, RendezvousPoint
from gpulayer.spec.workers import Capabilities
from gpulayer.worker import environment
from gpulayer.worker.layout import TaskFolders

_RUNTIME = ("-m", "gpulayer.runtime")
_PYTHONS = ("python", "python3")
CALL_FILE = "call.json"


@dataclass(frozen=True)
class Launch:
    """What the guard starts. ``ranks`` write into named pipes; a ``direct`` process has no torchrun above it.

    ``rank`` is the global rank that the direct process counts as, None for a plain command. ``secrets`` join ``env`` in the
    process alone.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    ranks: tuple[int, ...] = ()
    direct: bool = True
    rank: int | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def launch(
    order: Order,
    where: TaskFolders,
    host: Mapping[str, str],
    worker_name: str,
    can: Capabilities,
    point: RendezvousPoint | None,
) -> Launch:
    """Turn an order into a command; ``point`` is where torchrun's agents meet."""
    env = environment.of_task(order, where, host, worker_name, can)
    cwd = str((where.work / order.spec.cwd).absolute())
    match order.spec:
        case DistributedJob() as spec:
            if point is None:
                raise ValueError("torchrun needs a place to meet.")
            first = order.node_rank * order.procs_per_worker
            return Launch(
                argv=torchrun(spec, order, point, can.executable, can.advertise_address),
                env=environment.shielded(env),
                cwd=cwd,
                ranks=tuple(range(first, first + order.procs_per_worker)),
                direct=False,
            )
        case FunctionJob():
            call = (can.executable, "-u", *_RUNTIME, "--call", str(where.root / CALL_FILE))
            return Launch(call, environment.shielded(env), cwd, rank=0)
        case CommandJob(command=command):
            through_runtime = command[0] in _PYTHONS and command[1:3] == _RUNTIME
            argv = (can.executable, *command[1:]) if command[0] in _PYTHONS else command
            return Launch(argv, environment.shielded(env) if through_runtime else env, cwd, rank=0 if through_runtime else None)


def torchrun(
    spec: DistributedJob, order: Order, point: RendezvousPoint, executable: str, local: str | None = None
) -> tuple[str, ...]:
    """Write the command line of one node's torchrun; ``local`` is the node's own address, whose name may not resolve."""
    options = {
        "--nnodes": order.num_workers,
        "--nproc-per-node": order.procs_per_worker,
        "--node-rank": order.node_rank,
        "--master-addr": point.address,
        "--master-port": point.port,
        **({"--local-addr": local} if local else {}),
    }
    words = [str(word) for option in options.items() for word in option]
    return (
        *(executable, "-P", "-m", "torch.distributed.run", *words),
        *("--max-restarts=0", "--logs-specs", "gpulayer"),
        *(*_RUNTIME, *entry_words(spec.entrypoint), *spec.args),
    )


def entry_words(entrypoint: str) -> tuple[str, ...]:
    """Split ``-m package.module`` and ``--console module:function`` into two words; a script's path is one, spaces and all."""
    option, _, rest = entrypoint.strip().partition(" ")
    return (option, rest.strip()) if option in ("-m", "--console") and rest else (entrypoint,)
