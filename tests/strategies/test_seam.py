"""What a Trainer is at the caller when it asks for GPUlayer, and that others stay as they were."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import Any

import lightning.pytorch as pl
import pytest
from lightning.pytorch.utilities.exceptions import MisconfigurationException

import gpulayer as gl
from gpulayer.errors import DistributedMPS, InvalidCount, MoreProcsThanGpus, UnsupportedLightning
from gpulayer.strategies import names, session

QUIET: dict[str, Any] = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Expecting:
    """A session that only notes which workers a Trainer would have had started."""

    def __init__(self) -> None:
        self.nodes: list[int] = []

    def expect(self, num_nodes: int, options: gl.JobOptions) -> None:
        self.nodes.append(num_nodes)


@pytest.fixture(autouse=True)
def expecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Expecting]:
    noted = Expecting()
    monkeypatch.setattr(session, "current", lambda: noted)
    before = environment()
    yield noted
    assert environment() == before


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def trainer(**given: Any) -> pl.Trainer:
    return pl.Trainer(accelerator="gpulayer", **QUIET, **given)


def test_a_trainer_has_the_shape_of_its_job(expecting: Expecting) -> None:
    made = trainer(num_nodes=2, devices=3)
    assert (made.num_nodes, made.num_devices, made.world_size) == (2, 3, 6)
    assert (made.is_global_zero, made.global_rank, made.node_rank) == (True, 0, 0)
    assert expecting.nodes == [2]


@pytest.mark.parametrize(("devices", "count"), [("auto", 1), (-1, 1), ("-1", 1), (3, 3), ("3", 3), ([0, 1], 2), ("0,1", 2)])
def test_devices_are_counted(devices: Any, count: int) -> None:
    assert trainer(devices=devices).num_devices == count


@pytest.mark.parametrize("devices", [0, "0", [], -2, 1.5, "many", [1, 3], True])
def test_devices_that_lightning_would_refuse_are_refused(devices: Any) -> None:
    with pytest.raises(MisconfigurationException, match="devices="):
        trainer(devices=devices)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"strategy": "nonsense"}, ValueError, "invalid strategy name"),
        ({"num_nodes": 0}, ValueError, "positive integer"),
        ({"precision": "8-bit"}, ValueError, "Precision '8-bit' is invalid"),
        ({"plugins": [3]}, MisconfigurationException, "invalid type for plugin"),
        ({"precision": "64-true", "strategy": "fsdp", "devices": 2}, ValueError, "precision"),
    ],
)
def test_what_lightning_refuses_is_refused_in_its_words(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        trainer(**given)


def test_half_a_slurm_in_the_environment_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "2")
    assert trainer(devices=2).world_size == 2
    monkeypatch.delenv("SLURM_NTASKS")


def test_the_wishes_for_the_job_are_kept_and_shown() -> None:
    made = trainer(strategy="ddp_find_unused_parameters_true", precision="bf16-mixed", devices=2)
    assert made.strategy.inner == "ddp_find_unused_parameters_true"
    assert made.precision == "bf16-mixed"


def test_a_strategy_of_the_users_is_not_bound_at_the_caller() -> None:
    wish = pl.strategies.DDPStrategy(find_unused_parameters=True)
    made = trainer(strategy=wish, devices=2)
    assert made.strategy.inner is wish
    assert wish.accelerator is None


def test_a_strategy_of_the_users_is_for_one_trainer() -> None:
    wish = pl.strategies.DDPStrategy()
    trainer(strategy=wish, devices=2)
    with pytest.raises(MisconfigurationException, match=r"accelerator set through both .* is another Trainer's already"):
        trainer(strategy=wish, devices=2)


def test_the_strategy_says_the_same_as_the_accelerators_name() -> None:
    wish = gl.GPULayerStrategy(strategy="ddp", job={"name": "named"})
    made = pl.Trainer(strategy=wish, devices=2, **QUIET)
    assert made.strategy is wish
    assert (made.world_size, wish.options.name) == (2, "named")


def test_gpulayers_trainer_is_lightnings_with_one_more_argument() -> None:
    made = gl.Trainer(devices=2, job={"name": "named", "resources": {"cpus": 1}}, **QUIET)
    assert isinstance(made, pl.Trainer)
    assert made.strategy.options == gl.JobOptions(name="named", resources=gl.Resources(cpus=1))
    assert list(inspect.signature(gl.Trainer).parameters) == [*inspect.signature(pl.Trainer).parameters, "job"]
    assert made.job_id is None


def test_job_options_beside_another_accelerator_are_refused_with_the_right_way() -> None:
    with pytest.raises(ValueError, match="resources"):
        gl.Trainer(accelerator="cpu", job={"name": "x"}, **QUIET)


def test_gpulayers_trainer_on_another_accelerator_is_lightnings() -> None:
    assert isinstance(gl.Trainer(accelerator="cpu", devices=1, **QUIET).strategy, pl.strategies.SingleDeviceStrategy)


def test_cuda_jobs_ask_for_a_gpu_per_process() -> None:
    made = gl.Trainer(devices=2, job={"resources": {"accelerator": "cuda"}}, precision="16-mixed", **QUIET)
    assert made.strategy.options.resources.gpu_count == 2
    assert made.precision == "16-mixed"


def test_devices_auto_on_cuda_is_what_the_job_asks_for() -> None:
    made = gl.Trainer(devices="auto", job={"resources": {"accelerator": "cuda", "gpu_count": 4}}, **QUIET)
    assert made.world_size == 4


@pytest.mark.parametrize(
    ("resources", "devices", "asked"),
    [
        ({}, "auto", 1),  # a job of this machine, where no GPU is
        ({"accelerator": "cpu"}, -1, 1),
        ({"accelerator": "cuda"}, "auto", "auto"),
        ({"accelerator": "cuda"}, "-1", "auto"),
        ({"gpu_count": 2}, "auto", 2),
    ],
)
def test_devices_auto_is_left_to_placement_where_only_that_knows(
    monkeypatch: pytest.MonkeyPatch, resources: dict[str, Any], devices: Any, asked: Any
) -> None:
    monkeypatch.setattr("gpulayer.worker.nvml.devices", lambda: ())
    made = gl.Trainer(devices=devices, job={"resources": resources}, **QUIET)
    assert made.strategy.asked == asked


def test_devices_auto_of_another_machine_is_known_once_it_is_placed() -> None:
    made = gl.Trainer(devices="auto", num_nodes=2, job={"target": "remote"}, **QUIET)
    assert (made.strategy.asked, made.num_devices) == ("auto", 1)
    made.strategy.placed(4)
    assert (made.num_devices, made.world_size) == (4, 8)


def test_a_job_that_can_never_be_is_refused_when_the_trainer_is_made() -> None:
    with pytest.raises(DistributedMPS):
        gl.Trainer(devices=2, job={"resources": {"accelerator": "mps"}}, **QUIET)
    with pytest.raises(MoreProcsThanGpus):
        gl.Trainer(devices=2, job={"resources": {"accelerator": "cuda", "gpu_count": 1}}, **QUIET)
    with pytest.raises(InvalidCount):
        gl.Trainer(devices=2, job={"idle_limit_s": 0}, **QUIET)


def test_other_accelerators_are_left_to_lightning() -> None:
    assert type(pl.Trainer(accelerator="cpu", devices=1, **QUIET).strategy) is pl.strategies.SingleDeviceStrategy
    with pytest.raises(ValueError, match="gpulayer"):
        pl.Trainer(accelerator="nope", **QUIET)


def test_the_environment_can_choose_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PL_TRAINER_ACCELERATOR", "gpulayer")
    assert pl.Trainer(devices=2, **QUIET).world_size == 2
    monkeypatch.delenv("PL_TRAINER_ACCELERATOR")


def test_a_lightning_that_was_never_tried_is_refused() -> None:
    with pytest.raises(UnsupportedLightning, match=r"3\.0\.1"):
        names.check("3.0.1")
    names.check("2.6.0.dev20260101")
