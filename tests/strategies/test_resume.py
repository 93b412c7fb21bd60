"""What a ``ckpt_path`` names, judged at the caller; whole resumes in tests/end_to_end/test_resume.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest

from gpulayer.errors import InvalidJob, JobNotFound
from gpulayer.spec.job import CommandJob
from gpulayer.spec.records import JobRecord
from gpulayer.strategies import adoption, resume, validation
from gpulayer.strategies.call_settings import CallSettings
from tests.client.test_checkpoints import Kept, made

JOB = JobRecord(id="job-2", spec=CommandJob(command=("python", "-m", "gpulayer.runtime", "a.py")))


def request(ckpt_path: str | None, *, target: str = "local") -> Any:
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.state.fn = pl.trainer.states.TrainerFn.TESTING
    return SimpleNamespace(
        ckpt_path=ckpt_path,
        goes_on_from=None,
        trainer=trainer,
        model_given=True,
        options=SimpleNamespace(target=target),
        function="test",
    )


def plane() -> Any:
    kept = Kept(made("last.ckpt", 1.0, job="job-1"))

    def job(job_id: str) -> JobRecord:
        if job_id != "job-1":
            raise JobNotFound(f"There is no job {job_id}.")
        return JOB.model_copy(update={"id": job_id})

    kept.job = job  # type: ignore[method-assign]
    return kept


@pytest.mark.parametrize("path", ["here.ckpt", "file://{}/here.ckpt", "gpulayer://job-1/last", "s3://bucket/x.ckpt", None])
def test_what_is_there_or_lies_elsewhere_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.ckpt").touch()
    resume.check(request(path and path.format(tmp_path)), plane)


@pytest.mark.parametrize("path", ["none.ckpt", "file:///none.ckpt", "gpulayer://job-9/last", "gpulayer://job-1/node0/none"])
def test_what_names_nothing_is_not_found(path: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"Checkpoint file not found: {path}"):
        resume.check(request(path), plane)


def test_an_absolute_path_may_be_another_machines() -> None:
    resume.check(request("/scratch/x.ckpt", target="remote"), plane)
    with pytest.raises(FileNotFoundError):
        resume.check(request("x.ckpt", target="remote"), plane)


def test_a_path_that_the_user_set_on_the_trainer_is_judged_as_well() -> None:
    asking = request(None)
    asking.trainer.ckpt_path = "none.ckpt"
    with pytest.raises(FileNotFoundError):
        resume.check(asking, plane)


def test_words_are_judged_by_lightning() -> None:
    with pytest.raises(ValueError, match="`ModelCheckpoint` is not configured"):
        resume.check(request("best"), plane)


def test_the_last_of_a_job_before_is_named_by_its_url(tmp_path: Path) -> None:
    before = plane()
    found = resume.resolve(request("last"), before, tmp_path, JOB, {})
    assert found is not None
    assert Path(found.path).read_text() == "x"
    assert found.shown == "gpulayer://job-1/node0/last.ckpt"


def test_after_a_call_the_trainer_names_the_checkpoint_as_a_local_run_would() -> None:
    settings = CallSettings(ckpt_path="/home/copy.ckpt", ckpt_shown="gpulayer://job-1/node0/last.ckpt")
    assert adoption.shown_path("gpulayer://job-1/last", settings) == "gpulayer://job-1/last"
    assert adoption.shown_path(Path("a.ckpt"), settings) == Path("a.ckpt")
    assert adoption.shown_path("last", settings) == settings.ckpt_shown
    assert adoption.shown_path("best", CallSettings()) is None


@pytest.mark.parametrize("epochs", ["x", 1.5, "3"])
def test_epochs_are_whole_numbers(epochs: Any) -> None:
    with pytest.raises(InvalidJob, match="is not a number of epochs"):
        validation.check_call("fit", epochs)
    validation.check_call("test", epochs)
    validation.check_call("fit", None)


def test_a_checkpoint_that_stayed_is_the_jobs_own_where_it_is_that_job(tmp_path: Path) -> None:
    before = plane()
    for job, own in (("job-2", True), ("job-1", False)):
        url = f"gpulayer://{job}/node0/last.ckpt"
        asking = request("best")
        asking.trainer = pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
        asking.trainer.state.fn = pl.trainer.states.TrainerFn.TESTING
        asking.trainer.checkpoint_callback.best_model_path = url
        found = resume.resolve(asking, before, tmp_path, JOB, {url: "/caller/last.ckpt"})
        assert found is not None
        assert found.shown == url
        assert (found.path == "/caller/last.ckpt") is own
        assert Path(found.path).exists() is not own


def test_last_is_one_that_stayed_with_the_job_where_nothing_newer_lies_here(tmp_path: Path) -> None:
    before = Kept(made("last.ckpt", 1.0, job="job-2"))
    url = "gpulayer://job-2/node0/last.ckpt"
    found = resume.resolve(request("last"), before, tmp_path, JOB, {url: "/caller/last.ckpt"})  # type: ignore[arg-type]
    assert found == resume.Found("/caller/last.ckpt", url)
