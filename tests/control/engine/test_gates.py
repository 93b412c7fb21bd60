"""What a worker answers to a job: one story a line."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.control.engine import placement, versions
from gpulayer.spec.records import WorkerRecord
from tests.control.engine.given import command, gang, gpus, queued, worker

CUDA = {"accelerator": "cuda", "gpu_count": 1}
NO_GPU = worker("w")

STORIES: list[tuple[Any, WorkerRecord, str]] = [
    (command(resources=CUDA), NO_GPU, "needs 1 usable cuda device(s), worker has 0"),
    (command(resources={"accelerator": "cuda"}), NO_GPU, "needs 1 usable cuda device(s), worker has 0"),
    (command(resources={"gpu_count": 2}), NO_GPU, "needs 2 usable cuda device(s), worker has 0"),
    (command(resources={"accelerator": "mps"}), NO_GPU, "needs 1 usable mps device(s), worker has 0"),
    (
        command(resources=CUDA | {"gpu_model": "a100", "gpu_memory_gb": 40}),
        worker("w", devices=gpus("m", 2)),
        "needs 1 usable cuda device(s) of model a100 with 40 GB, worker has 0",
    ),
    (
        gang(2, 2, resources={"accelerator": "cuda", "gpu_count": 2}),
        worker("w", devices=gpus("m", 1)),
        "needs 2 usable cuda device(s), worker has 1",
    ),
    (command(resources={"cpus": 16}), NO_GPU, "needs 16 cpu(s), worker has 8"),
    (command(resources={"memory_gb": 65.5}), NO_GPU, "needs 65.5 GB of memory, worker has 64"),
    (command(resources={"disk_gb": 1000}), NO_GPU, "needs 1000 GB of disk, worker has 500"),
    (command(resources={"python": ">=3.12"}), NO_GPU, "python 3.11.7 does not satisfy >=3.12"),
    (command(resources={"torch": ">=2.2"}), worker("w", torch="2.1.0"), "torch 2.1.0 does not satisfy >=2.2"),
    (command(resources={"torch": ">=2.2"}), worker("w", torch=None), "needs torch >=2.2, worker has none"),
    (command(resources={"frameworks": {"jax": ""}}), NO_GPU, "needs jax, worker has none"),
    (command(placement={"target": "remote"}), NO_GPU, "serves target local, the job asks for remote"),
    (
        command(placement={"target": "remote", "fallback_targets": ["cloud"]}),
        NO_GPU,
        "serves target local, the job asks for remote or cloud",
    ),
    (command(), worker("w", origin="existing"), "serves target remote, the job asks for local"),
    (command(placement={"workers": ["x", "y"]}), NO_GPU, "is not one of the named workers (x, y)"),
    (command(placement={"labels": {"zone": "a"}}), NO_GPU, "needs label zone=a, worker has no label zone"),
    (
        command(placement={"labels": {"zone": "a"}}),
        worker("w", labels={"zone": "b"}),
        "needs label zone=a, worker has zone=b",
    ),
    (command(), worker("w", owner="prc-1"), "takes only the jobs of the process that started it"),
    (command(), worker("w", state="draining"), "is draining"),
    (gang(1, 2), worker("w", launcher=False), "has no torchrun launcher"),
    (gang(1, 2), worker("w", backends=()), "has no gloo backend"),
    (gang(1, 2, backend="nccl", resources={"accelerator": "cuda", "gpu_count": 2}),
     worker("w", devices=gpus("m", 2), backends=("gloo",)), "has no nccl backend"),
    (gang(2), worker("w", advertise_address=None), "has no advertise_address, which more than one node needs"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "asked", "sentence"), STORIES, ids=[sentence for _, _, sentence in STORIES])
def test_an_unfit_worker_says_why_and_that_waiting_is_no_help(spec: Any, asked: WorkerRecord, sentence: str) -> None:
    verdict = placement.verdict(queued(spec), asked, now=0.0)

    assert verdict.sentences == (sentence,)
    assert not verdict.compatible


FIT: list[tuple[str, Any, WorkerRecord]] = [
    ("nothing asked", command(), worker("w", torch=None, launcher=False, backends=(), advertise_address=None)),
    ("one process runs without torchrun", gang(1, 1), worker("w", launcher=False, backends=(), advertise_address=None)),
    ("one node needs no address", gang(1, 2), worker("w", advertise_address=None)),
    ("auto takes a worker without devices", gang(1, 2), worker("w")),
    ("named by name", command(placement={"workers": ["w"]}), worker("w")),
    ("named by id", command(placement={"workers": ["wkr-w"]}), worker("w")),
    ("label", command(placement={"labels": {"zone": "a"}}), worker("w", labels={"zone": "a", "rack": "1"})),
    ("fallback", command(placement={"fallback_targets": ["remote"]}), worker("w", origin="existing")),
    ("local build of torch", command(resources={"torch": "==2.13.0"}), worker("w", torch="2.13.0+cpu")),
    ("nightly", command(resources={"torch": ">=2.3"}), worker("w", torch="2.3.0.dev20240101+cu121")),
    ("model in part and in any case", command(resources=CUDA | {"gpu_model": "h100"}), worker("w", devices=gpus("m", 1))),
    (
        "distribution name spelled otherwise",
        command(resources={"frameworks": {"PyTorch_Lightning": ">=2"}}),
        worker("w", frameworks={"pytorch-lightning": "2.6.6"}),
    ),
]


@pytest.mark.parametrize(("spec", "asked"), [story[1:] for story in FIT], ids=[story[0] for story in FIT])
def test_a_fit_worker_has_nothing_to_say(spec: Any, asked: WorkerRecord) -> None:
    verdict = placement.verdict(queued(spec), asked, now=0.0)

    assert verdict.sentences == ()
    assert verdict.compatible


def test_an_owned_worker_takes_its_owners_jobs() -> None:
    verdict = placement.verdict(queued(command(), owner="prc-1"), worker("w", owner="prc-1"), now=0.0)

    assert verdict.sentences == ()


def test_all_of_a_workers_reasons_are_told() -> None:
    spec = command(resources={"torch": ">=2.2", "accelerator": "cuda"})

    verdict = placement.verdict(queued(spec), worker("w", torch="2.1.0"), now=0.0)

    assert verdict.sentences == ("needs 1 usable cuda device(s), worker has 0", "torch 2.1.0 does not satisfy >=2.2")


def test_a_busy_worker_is_compatible() -> None:
    verdict = placement.verdict(queued(command()), worker("w", slots=2, busy=2), now=0.0)

    assert verdict.compatible
    assert verdict.sentences == ("is busy (2 of 2 slots taken)",)


def test_a_worker_whose_devices_are_held_is_compatible() -> None:
    devices = gpus("m", 2)
    asked = worker("w", slots=2, busy=1, devices=devices, leased=(devices[0].uuid,))

    verdict = placement.verdict(queued(command(resources={"accelerator": "cuda", "gpu_count": 2})), asked, now=0.0)

    assert verdict.compatible
    assert verdict.sentences == ("needs 2 usable cuda device(s), 1 of them free now",)


@pytest.mark.parametrize(
    ("version", "specifier", "fits"),
    [
        ("2.3.0.dev20240101", ">=2.3", True),
        ("2.3.0.dev20240101", ">=2", True),
        ("2.3.0.dev20240101", "<2.3", False),
        ("2.3.0rc1", ">=2.3.0rc2", False),
        ("2.3.0rc2", ">=2.3.0rc1", True),
        ("2.13.0+cpu", "==2.13.*", True),
        ("3.12.0b1", ">=3.12", True),
        ("2.10.0", ">=2.9", True),
        ("unknown", ">=1", False),
        ("unknown", "", True),
    ],
)
def test_a_pre_release_counts_as_its_version(version: str, specifier: str, fits: bool) -> None:
    assert versions.satisfies(version, specifier) is fits
