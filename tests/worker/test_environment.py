"""What a job's processes find in their environment, and on their command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpulayer.spec.job import Calls, CommandJob, DistributedJob, FunctionJob
from gpulayer.spec.records import Order, RendezvousPoint
from gpulayer.spec.workers import Capabilities, Device
from gpulayer.worker import environment, layout, torchrun

HOME = Path("/h")
CAN = Capabilities(machine="m", executable="/venv/bin/python", advertise_address="10.0.0.7", interface="eth1")
POINT = RendezvousPoint(address="10.0.0.1", port=29511, nonce="n")
GPU = Device(uuid="GPU-aa", kind="cuda", index=3)


def order(spec: Any, **fields: Any) -> Order:
    given = {"job_id": "job-1", "attempt": 2, "node_rank": 1, "procs_per_worker": 2, "num_workers": 2, **fields}
    return Order(spec=spec, **given)


def env_of(host: dict[str, str], spec: Any = None, can: Capabilities = CAN, **fields: Any) -> dict[str, str]:
    given = order(spec or CommandJob(command=("x",)), **fields)
    return environment.of_task(given, layout.folders(HOME, HOME, given), host, "one", can)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "SLURM_JOB_ID",
            "SLURM_NTASKS",
            "SLURMD_NODENAME",
            "RANK",
            "WORLD_SIZE",
            "LOCAL_RANK",
            "LOCAL_WORLD_SIZE",
            "NODE_RANK",
        ),
        *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
        *("TORCHELASTIC_ERROR_FILE", "TORCH_ELASTIC_WORKER_IDENTICAL", "PET_NNODES", "PMI_RANK", "PMIX_RANK"),
        *("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "LSB_JOBID", "JSM_NAMESPACE_RANK", "PBS_JOBID"),
        *("GPULAYER_JOB_ID", "GPULAYER_SOCKET", "GPULAYER_CALLS", "GPULAYER_USER_SAFEPATH"),
    ],
)
def test_variables_of_another_cluster_or_job_do_not_leak_in(name: str) -> None:
    host = env_of({name: "stale"})

    assert host.get(name) != "stale"


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "WANDB_API_KEY", "PYTHONPATH", "PL_TRAINER_MAX_EPOCHS", "PL_GLOBAL_SEED", "RANKING", "GPULAYER_HOME"],
)
def test_what_the_user_set_is_inherited(name: str) -> None:
    assert env_of({name: "mine"})[name] == "mine"


@pytest.mark.parametrize(
    ("host", "job", "expected"),
    [({}, {}, "1"), ({"OMP_NUM_THREADS": "4"}, {}, "4"), ({"OMP_NUM_THREADS": "4"}, {"OMP_NUM_THREADS": "2"}, "2")],
)
def test_threads_are_one_unless_somebody_said_otherwise(host: dict[str, str], job: dict[str, str], expected: str) -> None:
    assert env_of(host, CommandJob(command=("x",), env=job))["OMP_NUM_THREADS"] == expected


def test_a_job_may_set_a_variable_of_a_cluster_itself() -> None:
    assert env_of({}, CommandJob(command=("x",), env={"MASTER_PORT": "1"}))["MASTER_PORT"] == "1"


def test_the_interface_is_named_in_each_librarys_syntax_unless_the_user_did() -> None:
    found = env_of({"NCCL_SOCKET_IFNAME": "^docker0"})

    assert (found["GLOO_SOCKET_IFNAME"], found["NCCL_SOCKET_IFNAME"]) == ("eth1", "^docker0")
    assert env_of({})["NCCL_SOCKET_IFNAME"] == "=eth1"


def test_nccl_takes_the_ipv6_address_of_the_interface_where_that_is_what_is_advertised() -> None:
    six = CAN.model_copy(update={"advertise_address": "fd00::7"})

    assert env_of({}, can=six)["NCCL_SOCKET_FAMILY"] == "AF_INET6"
    assert "NCCL_SOCKET_FAMILY" not in env_of({})


def test_leased_devices_are_all_that_is_seen() -> None:
    with_gpu = CAN.model_copy(update={"devices": (GPU,)})

    assert env_of({"CUDA_VISIBLE_DEVICES": "0,1"}, can=with_gpu, devices=(GPU,))["CUDA_VISIBLE_DEVICES"] == "GPU-aa"
    assert env_of({"CUDA_VISIBLE_DEVICES": "0,1"}, can=with_gpu)["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in env_of({})


def test_a_job_hears_where_it_is() -> None:
    calls = Calls(root="/r", cwd="/r")
    found = env_of({}, DistributedJob(entrypoint="t.py", num_workers=2, procs_per_worker=2, calls=calls))

    assert found["GPULAYER_OUTPUT_DIR"] == "/h/work/job-1.2"
    assert found["GPULAYER_TASK_DIR"] == "/h/tasks/job-1.2.1"
    assert found["GPULAYER_SOCKET"] == "/h/tasks/job-1.2.1/rank.sock"
    assert Calls.model_validate_json(found["GPULAYER_CALLS"]) == calls


def work_of(node_rank: int, machine_rank: int, **fields: Any) -> str:
    spec = DistributedJob(entrypoint="t.py", num_workers=3, **fields)
    given = order(spec, node_rank=node_rank, machine_rank=machine_rank, num_workers=3)
    return str(layout.folders(Path(f"/disk{node_rank}"), Path("/shared"), given).work)


def test_a_gang_has_one_path_on_all_machines_and_the_nodes_of_a_script_share_it_on_each() -> None:
    calls = Calls(root="/r", cwd="/r")
    assert [work_of(node, machine, calls=calls) for node, machine in ((0, 0), (1, 0), (2, 2))] == ["/shared/work/job-1.2"] * 3


def test_nodes_without_calls_have_folders_of_their_own_the_first_of_each_machine_at_that_path() -> None:
    found = [work_of(node, machine) for node, machine in ((0, 0), (1, 0), (2, 2))]
    assert found == ["/shared/work/job-1.2", "/shared/work/job-1.2.1", "/shared/work/job-1.2"]


def test_a_job_of_one_node_works_on_its_workers_own_disk() -> None:
    given = order(CommandJob(command=("x",)), node_rank=0, num_workers=1)
    assert str(layout.folders(Path("/disk"), Path("/shared"), given).work) == "/disk/work/job-1.2"


def test_a_long_home_gets_a_short_tmpdir() -> None:
    given = order(CommandJob(command=("x",)))
    deep = Path("/" + "d" * 90)

    assert layout.folders(HOME, HOME, given).tmp == Path("/h/tasks/job-1.2.1/tmp")
    assert len(str(layout.folders(deep, deep, given).tmp)) < 50


def launch(spec: Any, **fields: Any) -> torchrun.Launch:
    given = order(spec, **fields)
    return torchrun.launch(given, layout.folders(HOME, HOME, given), {"PYTHONSAFEPATH": ""}, "one", CAN, POINT)


def test_torchrun_is_started_as_documented() -> None:
    spec = DistributedJob(entrypoint="train.py", args=("--lr", "--", "-x"), num_workers=2, procs_per_worker=2, cwd="sub")
    found = launch(spec)

    assert " ".join(found.argv) == (
        "/venv/bin/python -P -m torch.distributed.run --nnodes 2 --nproc-per-node 2 --node-rank 1 --master-addr 10.0.0.1 "
        "--master-port 29511 --local-addr 10.0.0.7 --max-restarts=0 --logs-specs gpulayer "
        "-m gpulayer.runtime train.py --lr -- -x"
    )
    assert (found.ranks, found.direct, found.cwd) == ((2, 3), False, "/h/work/job-1.2.1/sub")
    assert found.env["PYTHONSAFEPATH"] == "1"


@pytest.mark.parametrize(
    ("entrypoint", "words"),
    [
        ("-m pkg.mod", ("-m", "pkg.mod")),
        ("a b.py", ("a b.py",)),
        ("mod:fn", ("mod:fn",)),
        (" -m  pkg ", ("-m", "pkg")),
        ("--console a.b:c", ("--console", "a.b:c")),
    ],
)
def test_entry_points_as_words(entrypoint: str, words: tuple[str, ...]) -> None:
    assert torchrun.entry_words(entrypoint) == words


def test_a_command_is_left_as_it_is_but_for_python() -> None:
    assert launch(CommandJob(command=("bash", "-c", "x"))).argv == ("bash", "-c", "x")
    plain = launch(CommandJob(command=("python", "t.py")))
    assert (plain.argv, plain.rank) == (("/venv/bin/python", "t.py"), None)
    assert "PYTHONSAFEPATH" not in plain.env or plain.env["PYTHONSAFEPATH"] == ""


def test_one_process_through_the_runtime_is_rank_0() -> None:
    found = launch(CommandJob(command=("python", "-m", "gpulayer.runtime", "t.py")))

    assert (found.argv, found.rank, found.direct) == (("/venv/bin/python", "-m", "gpulayer.runtime", "t.py"), 0, True)
    assert found.env["PYTHONSAFEPATH"] == "1"
    assert "RANK" not in found.env


def test_a_function_goes_through_the_runtime() -> None:
    assert launch(FunctionJob(function="m:f")).argv[-2:] == ("--call", "/h/tasks/job-1.2.1/call.json")


def test_a_worker_of_many_gives_what_its_machine_has_and_no_more() -> None:
    given = dict.fromkeys(("PATH", "LC_ALL", "CUDA_HOME", "NCCL_IB_HCA", "https_proxy", "SSL_CERT_FILE", "HF_HOME"), "x")
    kept_back = dict.fromkeys(("GPULAYER_TOKEN", "GPULAYER_URL", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "RANK"), "x")

    assert environment.of_machine({**given, **kept_back}) == given


def test_the_page_names_all_that_a_worker_gives() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/secrets.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z_]+\*?)`", page))

    assert {name for name in environment._OF_THE_MACHINE if name.isupper()} <= named


def test_a_job_hears_the_names_of_its_secrets_and_no_value() -> None:
    assert env_of({}, CommandJob(command=("x",), secrets=("A", "B")))["GPULAYER_SECRETS"] == "A,B"
    assert "GPULAYER_SECRETS" not in env_of({})
