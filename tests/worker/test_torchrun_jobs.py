"""A DistributedJob under real torchrun and gloo, on one or two agents."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from gpulayer.spec.job import DistributedJob
from gpulayer.spec.reports import OutputsIndexed, RendezvousTaken, TaskFault, TaskRunning
from gpulayer.spec.states import Reason, TaskState
from tests.left_running import left_running
from tests.worker.recording import RecordingPlane

Fleet = Callable[..., Any]
Bundled = Callable[..., RecordingPlane]

REDUCE = """
    import json, os, sys
    from pathlib import Path
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    x = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(x)
    names = ["RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "GPULAYER_NODE_RANK"]
    print(json.dumps({"sum": x.item(), "argv": sys.argv[1:], **{name: os.environ.get(name) for name in names}}), flush=True)
    (Path(os.environ["GPULAYER_OUTPUT_DIR"]) / f"rank{dist.get_rank()}.txt").write_text("x")
    print("to stderr", file=sys.stderr)
"""

MEET = """
    import os, sys, time
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print("pid", os.getpid(), os.getppid(), flush=True)
    {middle}
    while True:
        dist.all_reduce(torch.ones(1))
        time.sleep(0.01)
"""


def job(nodes: int, procs: int, **fields: Any) -> DistributedJob:
    return DistributedJob(**{"entrypoint": "train.py", "num_workers": nodes, "procs_per_worker": procs, **fields})


def pids(plane: RecordingPlane, world: int) -> dict[int, tuple[int, int]]:
    """Wait until every rank told its pid, and return them with their parents'."""

    def told() -> dict[int, tuple[int, int]] | None:
        lines = [line for line in plane.kept_lines if line.text.startswith("pid ")]
        found = {line.rank: tuple(map(int, line.text.split()[1:])) for line in lines}
        return found if len(found) == world else None  # type: ignore[return-value]

    return plane.wait_for(told)  # type: ignore[no-any-return]


def test_two_nodes_of_two_processes_meet_and_every_line_has_its_rank(fleet: Fleet, bundled: Bundled) -> None:
    plane = bundled(job(2, 2, args=("--lr", "0.1", "--", "-x", "", "a b")), {"train.py": REDUCE})
    fleet(plane, 2)

    ended = plane.wait_ended()

    assert [each.state for each in ended] == [TaskState.SUCCEEDED] * 2, plane.text()
    for rank in range(4):
        told = json.loads(plane.text(rank, "stdout"))
        assert told == {
            "sum": 10.0,
            "argv": ["--lr", "0.1", "--", "-x", "", "a b"],
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % 2),
            "GROUP_RANK": str(rank // 2),
            "WORLD_SIZE": "4",
            "LOCAL_WORLD_SIZE": "2",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "GPULAYER_NODE_RANK": str(rank // 2),
        }
        assert plane.text(rank, "stderr").splitlines()[-1] == "to stderr"
    manifests = {each.node_rank: [entry.path for entry in each.manifest.entries] for each in plane.of(OutputsIndexed)}
    assert {node: sorted(paths) for node, paths in manifests.items()} == {
        0: ["rank0.txt", "rank1.txt"],
        1: ["rank2.txt", "rank3.txt"],
    }


@pytest.mark.parametrize("address", ["::1", "127.0.0.2"])
def test_nodes_meet_at_an_address_of_ipv6_and_at_a_further_one_of_the_machine(
    fleet: Fleet, bundled: Bundled, address: str
) -> None:
    plane = bundled(job(2, 1), {"train.py": REDUCE})
    fleet(plane, 2, address=address)

    ended = plane.wait_ended()

    assert [each.state for each in ended] == [TaskState.SUCCEEDED] * 2, plane.text()
    assert {each.point.address for each in plane.of(RendezvousTaken)} == {address}
    assert json.loads(plane.text(1, "stdout"))["sum"] == 3.0


def test_a_module_and_a_function_can_be_entry_points(fleet: Fleet, bundled: Bundled) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/go.py": "import sys\nprint(__name__, sys.argv[1:])\ndef main(*args): print('main', args)\n",
    }
    for entrypoint, expected in (("-m pkg.go", "__main__ ['-m', '1']"), ("pkg.go:main", "main ('-m', '1')")):
        plane = bundled(job(1, 1, entrypoint=entrypoint, args=("-m", "1")), files)
        fleet(plane)

        plane.wait_ended()

        assert plane.text(0).splitlines()[-1] == expected, plane.text()


def test_a_thousand_lines_printed_at_once_by_each_rank_all_arrive(fleet: Fleet, bundled: Bundled) -> None:
    code = "import os\nfor i in range(1000): print(os.environ['RANK'], i)\nos.write(2, b'from C')\n"
    plane = bundled(job(1, 2), {"train.py": code})
    fleet(plane)

    plane.wait_ended()

    for rank in (0, 1):
        assert plane.text(rank, "stdout") == "".join(f"{rank} {number}\n" for number in range(1000))
        assert plane.text(rank, "stderr") == "from C\n"


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_is_named_and_its_peers_end(fleet: Fleet, bundled: Bundled, victim: int) -> None:
    plane = bundled(job(2, 1), {"train.py": MEET.format(middle="pass")})
    fleet(plane, 2)
    os.kill(pids(plane, 2)[victim][0], signal.SIGKILL)

    ended = plane.wait_ended(20)

    faults = [each.evidence for each in plane.of(TaskFault)]
    culprits = [(each.kind, each.rank, each.signal) for each in faults if each.kind != "communication"]
    assert culprits == [("signal", victim, 9)]
    assert (ended[victim].state, ended[victim].reason, ended[victim].exit_code) == (TaskState.FAILED, Reason.SIGNALLED, 137)
    assert ended[1 - victim].reason is Reason.PEER_FAILED


def test_a_killed_rank_beside_others_on_its_node_is_named(fleet: Fleet, bundled: Bundled) -> None:
    plane = bundled(job(1, 2), {"train.py": MEET.format(middle="pass")})
    fleet(plane)
    os.kill(pids(plane, 2)[1][0], signal.SIGKILL)

    (ended,) = plane.wait_ended(20)

    culprits = [each.evidence for each in plane.of(TaskFault) if each.evidence.kind != "communication"]
    assert [(each.kind, each.rank, each.signal) for each in culprits] == [("signal", 1, 9)]
    assert ended.state is TaskState.FAILED


def test_a_killed_torchrun_is_named_and_takes_its_ranks_with_it(fleet: Fleet, bundled: Bundled) -> None:
    plane = bundled(job(2, 1), {"train.py": MEET.format(middle="pass")})
    fleet(plane, 2)
    os.kill(pids(plane, 2)[1][1], signal.SIGKILL)

    ended = plane.wait_ended(20)

    culprits = [each.evidence for each in plane.of(TaskFault) if each.evidence.kind != "communication"]
    assert [(each.kind, each.node_rank, each.rank, each.signal) for each in culprits] == [("signal", 1, None, 9)]
    assert (ended[1].reason, ended[1].exit_code) == (Reason.SIGNALLED, 137)


def test_an_exception_outside_of_calls_is_evidence_with_its_traceback(fleet: Fleet, bundled: Bundled) -> None:
    middle = "if rank == 1: raise ValueError('mine')"
    plane = bundled(job(2, 1), {"train.py": MEET.format(middle=middle)})
    fleet(plane, 2)

    ended = plane.wait_ended()

    culprits = [each.evidence for each in plane.of(TaskFault) if each.evidence.kind != "communication"]
    assert [(each.kind, each.rank, each.error.qualname, each.error.message) for each in culprits] == [
        ("exception", 1, "ValueError", "mine")
    ]
    assert "train.py" in culprits[0].error.traceback
    assert "gpulayer" not in culprits[0].error.traceback.replace(str(os.environ["GPULAYER_HOME"]), "")
    assert (ended[1].reason, ended[1].exit_code) == (Reason.USER_ERROR, 1)


def test_a_ranks_own_exit_code_stands_for_torchruns(fleet: Fleet, bundled: Bundled) -> None:
    plane = bundled(job(1, 2), {"train.py": MEET.format(middle="if rank == 1: sys.exit(7)")})
    fleet(plane)

    (ended,) = plane.wait_ended()

    assert (ended.state, ended.reason, ended.exit_code) == (TaskState.FAILED, Reason.EXITED, 7)


def test_a_cancelled_job_ends_on_all_nodes(fleet: Fleet, bundled: Bundled) -> None:
    plane = bundled(job(2, 1), {"train.py": MEET.format(middle="pass")})
    fleet(plane, 2)
    pids(plane, 2)

    plane.stop(grace_s=5.0)

    ended = plane.wait_ended(20)
    assert [(each.state, each.reason, each.exit_code) for each in ended] == [
        (TaskState.CANCELLED, Reason.CANCELLED_BY_USER, 143)
    ] * 2
    assert plane.of(TaskFault) == []


def test_a_killed_guard_leaves_nothing_behind(fleet: Fleet, bundled: Bundled, home: Any) -> None:
    middle = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    plane = bundled(job(1, 2), {"train.py": MEET.format(middle=middle)})
    fleet(plane)
    pids(plane, 2)
    guards = [pid for pid, words in left_running(home).items() if "gpulayer.worker.guard" in words]
    guards = guards or _guards()
    assert len(guards) == 1

    os.kill(guards[0], signal.SIGKILL)

    (ended,) = plane.wait_ended(20)
    assert (ended.state, ended.reason) == (TaskState.FAILED, Reason.SIGNALLED)
    assert "guard" in ended.sentence


def test_a_forked_daemon_of_the_script_ends_with_the_job(fleet: Fleet, bundled: Bundled) -> None:
    middle = "if os.fork() == 0:\n        os.setsid()\n        os.fork()\n        time.sleep(600)"
    plane = bundled(job(1, 2), {"train.py": MEET.format(middle=middle)})
    fleet(plane)
    os.kill(pids(plane, 2)[0][0], signal.SIGKILL)

    (ended,) = plane.wait_ended(20)

    assert ended.state is TaskState.FAILED  # that nothing is left is what the home fixture checks


def test_a_taken_rendezvous_port_is_named(fleet: Fleet, bundled: Bundled) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        plane = bundled(job(1, 1, rendezvous={"port": port}), {"train.py": "print(1)"})
        fleet(plane)
        (ended,) = plane.wait_ended()

    assert (ended.state, ended.reason) == (TaskState.FAILED, Reason.RENDEZVOUS_FAILED)
    assert str(port) in ended.sentence
    assert plane.of(RendezvousTaken) == plane.of(TaskRunning) == []


def _guards() -> list[int]:
    from gpulayer.worker import processes

    ours = {process.pid for process in processes.descendants(os.getpid())}
    found = []
    for pid in ours:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"gpulayer.worker.guard" in file.read():
                found.append(pid)
    return found
