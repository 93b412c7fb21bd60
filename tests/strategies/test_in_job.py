"""The job's half against a stand-in for the worker: one rank, real Lightning, no processes."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.plugins.io import AsyncCheckpointIO, TorchCheckpointIO

from gpulayer.errors import CallFromThread
from gpulayer.runtime import context
from gpulayer.spec.calls import EarlierCall, ErrorRecord, Fingerprint, Go
from gpulayer.spec.files import Blob
from gpulayer.spec.rank_messages import Begin, End, GoAhead
from gpulayer.strategies import call_settings, computing, digest, in_job, outcome, walk
from gpulayer.strategies.call_settings import CallSettings, CheckpointSettings, LoggerSettings
from tests.strategies.test_outcome import rows

pytestmark = pytest.mark.filterwarnings("ignore")
NONE = Blob(sha256="0" * 64, size=0)


class Left(BaseException):
    """What leaving the process is to a test."""


class Link:
    """Stands in for the rank's socket: says what it was told to say, and remembers what it heard."""

    def __init__(self) -> None:
        self.goes: deque[GoAhead | End] = deque()
        self.state: str | None = None
        self.arrived: list[tuple[Fingerprint, str]] = []
        self.records: list[dict[str, Any]] = []
        self.announced: list[dict[str, Any]] = []
        self.awaited: list[int] = []
        self.reports: list[Any] = []

    def is_interrupted(self, within_s: float) -> bool:
        return False

    def await_go(self) -> GoAhead | End:
        return self.goes.popleft() if self.goes else End()

    def arrive(self, fingerprint: Fingerprint, state_digest: str = "") -> None:
        self.arrived.append((fingerprint, state_digest))

    def await_begin(self, call: int) -> Begin:
        return Begin(call=call, state=self.state)

    def record(self, call: int, status: str, **facts: Any) -> None:
        self.records.append({"call": call, "status": status, **facts})

    def announce(self, path: str, files: Any = (), **facts: Any) -> int:
        self.announced.append({"path": path, "files": tuple(files), **facts})
        return len(self.announced)

    def await_kept(self, serial: int) -> None:
        self.awaited.append(serial)

    def progress(self, progress: Any) -> None:
        self.reports.append(progress)


class Job:
    """A rank's process as ``install`` finds it."""

    def __init__(self, link: Link, folder: Path, standing: walk.Walk) -> None:
        self.link, self.folder, self.work, self.walk = link, folder, folder / "work", standing

    def go(self, call: int, function: str = "fit", settings: CallSettings | None = None) -> None:
        go = Go(fingerprint=Fingerprint(call=call, function=function, trainer=0, module="", shapes=""))
        path = self.folder / f"settings{len(self.link.goes)}-{call}"
        path.write_bytes(call_settings.pack(settings or CallSettings()))
        self.link.goes.append(GoAhead(go=go.model_dump_json(), settings=str(path)))

    def trainer(self, **more: Any) -> pl.Trainer:
        given = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
        return pl.Trainer(accelerator="gpulayer", devices=2, num_nodes=2, **{"max_epochs": 1, **given, **more})


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    work, task = tmp_path / "work", tmp_path / "task"
    work.mkdir(), task.mkdir()
    env = {
        "GPULAYER_JOB_ID": "job-1",
        "GPULAYER_ATTEMPT": "1",
        "GPULAYER_NODE_RANK": "0",
        "GPULAYER_OUTPUT_DIR": str(work),
        "GPULAYER_INPUT_DIR": str(task),
        "GPULAYER_TASK_DIR": str(task),
        "GPULAYER_CALLS": '{"root": "/caller/proj", "cwd": "/caller/proj"}',
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(work)
    monkeypatch.setattr(walk.main, "leave", _left)
    link = Link()
    here = context.current()
    assert here is not None
    in_job.install(link, here)  # type: ignore[arg-type]
    assert in_job._Here.walk is not None
    yield Job(link, tmp_path, in_job._Here.walk)
    in_job._Here.walk = in_job._Here.announcer = in_job._Here.start = None


def _left(exit_code: int) -> None:
    raise Left(exit_code)


class Net(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.caught: list[str] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.log("test_loss", torch.nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def test_a_call_waits_for_its_go_records_and_goes_on(job: Job) -> None:
    job.go(0)
    job.go(1, "test")
    model, trainer = Net(), job.trainer()
    trainer.fit(model, rows())
    with pytest.raises(Left) as left:
        trainer.test(model, rows(), verbose=False)
    assert left.value.args == (0,)
    assert [(each["call"], each["status"]) for each in job.link.records] == [(0, "ok"), (1, "ok")]
    assert [print_of.function for print_of, _ in job.link.arrived] == ["fit", "test"]
    assert job.link.arrived[1][1] == digest.of_state(model)
    assert outcome.read(outcome.load(job.link.records[1]["body"])).returned[0].keys() == {"test_loss"}


def test_the_devices_are_those_that_torchrun_started(job: Job) -> None:
    trainer = job.trainer()
    assert (trainer.world_size, trainer.num_nodes, trainer.num_devices) == (1, 1, 1)


def test_a_failed_call_never_returns_to_the_script(job: Job) -> None:
    class Broken(ValueError):
        pass

    class Bad(Net):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            raise Broken("row", 3)

    hook = pl.callbacks.LambdaCallback(on_exception=lambda trainer, model, error: model.caught.append(type(error).__name__))
    job.go(0)
    model, trainer = Bad(), job.trainer(callbacks=[hook])
    with pytest.raises(Left) as left:
        trainer.fit(model, rows())
    assert left.value.args == (1,)
    (record,) = job.link.records
    assert (record["status"], record["error"].message) == ("failed", "('row', 3)")
    assert record["error"].qualname.endswith("Broken")
    assert "computing.py" not in record["error"].traceback
    body = outcome.load(record["body"])
    here, fresh = Bad(), pl.Trainer(logger=False, accelerator="cpu", enable_checkpointing=False)
    outcome.apply(body, outcome.Scene(fresh, here))
    assert here.caught == ["Broken"]
    assert fresh.state.status == "interrupted"


def test_an_interrupt_is_recorded_as_one(job: Job) -> None:
    class Bad(Net):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            raise KeyboardInterrupt

    job.go(0)
    with pytest.raises(Left):
        job.trainer().fit(Bad(), rows())
    assert (job.link.records[0]["status"], job.link.records[0]["error"].qualname) == ("interrupted", "KeyboardInterrupt")


def _computed(job: Job) -> tuple[Net, str]:
    """Compute call 0 as the job before would have, and return its module and the outcome's file."""
    torch.manual_seed(0)
    model = Net()
    job.go(0)
    with pytest.raises(Left):
        job.trainer().fit(model, rows())
    return model, job.link.records.pop()["body"]


def test_an_earlier_call_is_answered_from_its_record(job: Job) -> None:
    there, body = _computed(job)
    in_job.install(job.link, context.current())  # type: ignore[arg-type]
    earlier = EarlierCall(call=0, status="ok", outcome=NONE)
    _go_with(job, [earlier], [body], [None])
    torch.manual_seed(0)
    model, trainer = Net(), job.trainer()
    trainer.fit(model, rows())
    assert job.link.records == []
    assert torch.equal(model.net.weight, there.net.weight)
    assert (trainer.current_epoch, trainer.global_step) == (1, 4)
    assert len(trainer.optimizers) == 1
    with pytest.raises(Left):
        trainer.test(model, rows(), verbose=False)
    assert [each["call"] for each in job.link.records] == [1]


def _go_with(job: Job, earlier: list[EarlierCall], bodies: list[Any], errors: list[Any]) -> None:
    print_of = Fingerprint(call=len(earlier), function="test", trainer=0, module="", shapes="")
    go = Go(fingerprint=print_of, earlier=tuple(earlier))
    job.link.goes.append(GoAhead(go=go.model_dump_json(), earlier=tuple(bodies), earlier_errors=tuple(errors)))


def test_an_earlier_failure_is_raised_again_without_its_hooks(job: Job) -> None:
    record = ErrorRecord(rank=1, module="builtins", qualname="ZeroDivisionError", message="by zero", traceback="there")
    _go_with(job, [EarlierCall(call=0, status="failed", error=record)], [None], [None])
    seen: list[str] = []
    hook = pl.callbacks.LambdaCallback(on_exception=lambda *args: seen.append("again"))
    model, trainer = Net(), job.trainer(callbacks=[hook])
    with pytest.raises(ZeroDivisionError, match="by zero") as caught:
        trainer.fit(model, rows())
    assert "On rank 1 of the job" in caught.value.__notes__[-1]
    assert seen == []
    assert trainer.callbacks[0] is hook
    with pytest.raises(Left):
        trainer.test(model, rows(), verbose=False)


def test_a_call_inside_of_a_call_is_part_of_it(job: Job) -> None:
    inner: list[Any] = []

    class Test(pl.Callback):
        def on_train_end(self, trainer: Any, model: Any) -> None:
            inner.append(job.trainer().test(model, rows(), verbose=False))

    job.go(0)
    with pytest.raises(Left):
        job.trainer(callbacks=[Test()]).fit(Net(), rows())
    assert [each["call"] for each in job.link.records] == [0]
    assert "test_loss" in inner[0][0]


def test_a_call_from_another_thread_is_refused(job: Job) -> None:
    refused: list[BaseException] = []

    class Other(pl.Callback):
        def on_train_start(self, trainer: Any, model: Any) -> None:
            def call() -> None:
                try:
                    job.trainer().test(model, rows(), verbose=False)
                except CallFromThread as error:
                    refused.append(error)

            thread = threading.Thread(target=call)
            thread.start()
            thread.join()

    job.go(0)
    with pytest.raises(Left):
        job.trainer(callbacks=[Other()]).fit(Net(), rows())
    assert len(refused) == 1


def test_the_callers_tensors_are_loaded_before_computing(job: Job, tmp_path: Path) -> None:
    caller, rank = Net(), Net()
    path = tmp_path / "state"
    torch.save(digest.pack_state(caller), path)
    job.link.state = str(path)
    job.go(0, "test")
    with pytest.raises(Left):
        job.trainer().test(rank, rows(), verbose=False)
    assert torch.equal(rank.net.weight, caller.net.weight)


def test_the_callers_versions_names_and_folders_are_adopted(job: Job) -> None:
    settings = CallSettings(
        default_root_dir="/caller/proj",
        loggers=[LoggerSettings(save_dir="/caller/proj/logs", name="csv", version=3)],
        checkpoints=[CheckpointSettings(dirpath="/elsewhere/ckpt", names=["epoch=0-step=4.ckpt", "last.ckpt"])],
    )
    job.go(0, settings=settings)
    save = pl.callbacks.ModelCheckpoint("/elsewhere/ckpt", save_last=True)
    trainer = job.trainer(logger=pl.loggers.CSVLogger("logs", name="csv"), callbacks=[save], enable_checkpointing=True)
    with pytest.raises(Left):
        trainer.fit(Net(), rows())
    folder = job.work / "abs/elsewhere/ckpt"
    assert sorted(path.name for path in folder.iterdir()) == ["epoch=0-step=4-v1.ckpt", "last-v1.ckpt"]
    assert (job.work / "logs/csv/version_3").is_dir()
    body = outcome.load(job.link.records[0]["body"])
    here = pl.callbacks.ModelCheckpoint("/elsewhere/ckpt", save_last=True)
    fresh = job.trainer(logger=pl.loggers.CSVLogger("logs", name="csv"), callbacks=[here], enable_checkpointing=True)
    outcome.apply(body, outcome.Scene(fresh, Net()))
    assert here.best_model_path == "/elsewhere/ckpt/epoch=0-step=4-v1.ckpt"


def test_checkpoints_are_announced_and_kept_before_they_go(job: Job) -> None:
    job.go(0)
    save = pl.callbacks.ModelCheckpoint("ckpt", monitor="loss", mode="max", save_top_k=1, filename="{epoch}")
    with pytest.raises(Left):
        job.trainer(callbacks=[save], enable_checkpointing=True, max_epochs=2).fit(Net(), rows())
    first = job.link.announced[0]
    assert first["path"] == str(job.work / "ckpt/epoch=0.ckpt")
    assert first["files"] == (first["path"],)
    assert (first["epoch"], first["step"], first["monitor"]) == (0, 4, "loss")
    assert first["score"] is not None
    for position, each in enumerate(job.link.announced):
        if each.get("removed"):
            assert job.link.announced[0]["path"] == each["path"]
            assert 1 in job.link.awaited
            assert position == 2


def test_a_checkpoint_names_the_callers_paths_and_resuming_keeps_the_books(job: Job) -> None:
    def saver() -> pl.callbacks.ModelCheckpoint:
        return pl.callbacks.ModelCheckpoint("ckpt", monitor="loss", save_top_k=2, save_last=True)

    job.go(0)
    job.go(1)
    first, second = saver(), saver()
    job.trainer(callbacks=[first], enable_checkpointing=True).fit(Net(), rows())
    stored = torch.load(first.last_model_path, weights_only=False)["callbacks"]
    (state,) = stored.values()
    assert state["dirpath"] == "/caller/proj/ckpt"
    assert state["last_model_path"] == "/caller/proj/ckpt/last.ckpt"
    with pytest.raises(Left):
        job.trainer(callbacks=[second], enable_checkpointing=True, max_epochs=2).fit(
            Net(), rows(), ckpt_path=first.last_model_path
        )
    assert job.link.arrived[1][0].ckpt_path == "ckpt/last.ckpt"
    assert len(second.best_k_models) == 2
    assert first.best_model_path in second.best_k_models
    assert sorted(os.listdir(job.work / "ckpt")) == ["epoch=0-step=4.ckpt", "epoch=1-step=8.ckpt", "last.ckpt"]


def test_a_path_that_the_caller_resolved_is_taken_below_the_work_folder(job: Job) -> None:
    job.go(0)
    job.go(1, "test", CallSettings(ckpt_path="/caller/proj/ckpt/last.ckpt"))
    save = pl.callbacks.ModelCheckpoint("ckpt", save_last=True)
    model, trainer = Net(), job.trainer(callbacks=[save], enable_checkpointing=True)
    trainer.fit(model, rows())
    with pytest.raises(Left):
        trainer.test(model, rows(), ckpt_path="last", verbose=False)
    assert trainer.ckpt_path == str(job.work / "ckpt/last.ckpt")


def test_leaving_a_call_every_rank_takes_the_states_that_the_caller_has(job: Job) -> None:
    from gpulayer.strategies import random_state

    torch.manual_seed(7)
    states = random_state.now()
    expected = torch.rand(2)
    job.go(0)
    job.go(1, "test", CallSettings(random=states))
    trainer = job.trainer()
    trainer.fit(Net(), rows())
    assert torch.equal(torch.rand(2), expected)


def test_progress_is_reported_without_a_callback_of_the_trainers(job: Job) -> None:
    job.go(0)
    trainer = job.trainer(max_epochs=2)
    before = list(trainer.callbacks)
    with pytest.raises(Left):
        trainer.fit(Net(), rows())
    last = job.link.reports[-1]
    assert (last.function, last.step, last.epoch, last.batches) == ("fit", 8, 2, 4)
    assert "loss" in last.metrics
    assert trainer.callbacks == before


def test_the_progress_of_a_test_shows_none_of_the_fits_metrics(job: Job) -> None:
    job.go(0)
    trainer, model = job.trainer(max_epochs=1), Net()
    job.go(1, "test")
    trainer.fit(model, rows())
    with pytest.raises(Left):
        trainer.test(model, rows(), verbose=False)
    tested = [report.metrics for report in job.link.reports if report.function == "test"]
    assert "loss" not in {name for metrics in tested for name in metrics}
    assert "test_loss" in tested[-1]


def test_what_is_printed_in_a_call_is_marked(job: Job, capfd: pytest.CaptureFixture[str]) -> None:
    job.go(0, "test")
    with pytest.raises(Left):
        job.trainer().test(Net(), rows(), verbose=True)
    out = capfd.readouterr().out
    begin, end = out.index("\x1egpulayer call=0\n"), out.index("\x1egpulayer call=-\n")
    assert "test_loss" in out[begin:end]


class Slow(TorchCheckpointIO):
    """A user's own checkpoint I/O, which must stay the one that writes."""

    saved: ClassVar[list[str]] = []

    def save_checkpoint(self, checkpoint: Any, path: Any, storage_options: Any = None) -> None:
        super().save_checkpoint(checkpoint, path, storage_options)
        self.saved.append(os.path.basename(path))


def test_the_users_own_checkpoint_io_writes(job: Job) -> None:
    job.go(0)
    save = pl.callbacks.ModelCheckpoint("ckpt", filename="mine")
    with pytest.raises(Left):
        job.trainer(callbacks=[save], enable_checkpointing=True, plugins=[Slow()]).fit(Net(), rows())
    assert Slow.saved == ["mine.ckpt"]
    assert [os.path.basename(each["path"]) for each in job.link.announced] == ["mine.ckpt"]


def test_a_save_in_the_background_is_announced_when_it_is_whole(job: Job) -> None:
    job.go(0)
    save = pl.callbacks.ModelCheckpoint("ckpt", save_top_k=-1)
    with pytest.raises(Left):
        job.trainer(callbacks=[save], enable_checkpointing=True, plugins=[AsyncCheckpointIO()], max_epochs=3).fit(Net(), rows())
    assert len(job.link.announced) == 3
    assert all(each["files"] == (each["path"],) for each in job.link.announced)


def test_hooks_that_hang_do_not_keep_a_failure_from_being_told(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()

    class Hangs(pl.Callback):
        def on_exception(self, trainer: Any, model: Any, error: BaseException) -> None:
            assert told.wait(30)

    class Bad(Net):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            raise ValueError("first")

    monkeypatch.setattr(computing.os, "_exit", lambda code: told.set())
    calls = job.walk.context.calls.model_copy(update={"straggler_grace_s": 0.01})
    job.walk.context = dataclasses.replace(job.walk.context, calls=calls)
    job.go(0)
    with pytest.raises(Left):
        job.trainer(callbacks=[Hangs()]).fit(Bad(), rows())
    assert (job.link.records[0]["status"], job.link.records[0]["error"].message) == ("failed", "first")
