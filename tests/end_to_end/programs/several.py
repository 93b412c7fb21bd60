"""Several calls in one script, in the way that its argument names; prints what a user would look at, as JSON lines."""

import json
import os
import sys

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl

QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


class BadRow(ValueError):
    """The user's own."""


class Tiny(pl.LightningModule):
    fail_on = -1
    writes = False

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        if self.global_rank == self.fail_on:
            raise BadRow("row", batch_idx)
        if self.writes and self.global_rank == 0:
            os.makedirs("empty/inner", exist_ok=True)
            with open("inside.txt", "a") as steps:
                steps.write(f"{batch_idx}\n")
        if batch_idx == 0:
            print(f"inside of the call on rank {self.global_rank}")
        return self.net(batch[0]).pow(2).mean()

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("bias", self.net.bias.detach().sum(), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def trainer(**given: object) -> pl.Trainer:
    return gl.Trainer(**{"devices": 2, "max_epochs": 1, **QUIET, **given})


def end_of(job_id: str) -> None:
    """Wait at the caller until a job has ended."""
    from gpulayer import plane
    from gpulayer.spec.news import Cursor

    opened, cursor = plane.open(), Cursor()
    while True:
        news = opened.news(job_id, cursor, timeout_s=30, lines=False)
        if news.job.state.terminal:
            return opened.close()
        cursor = news.cursor


def edited(model: Tiny, data: object) -> None:
    first = trainer()
    first.fit(model, data)
    if not gl.in_job():  # as in a notebook: only the caller's model is changed
        torch.nn.init.constant_(model.net.bias, 7.0)
    (tested,) = first.test(model, data, verbose=False)
    one = trainer(devices=1)
    (again,) = one.test(model, data, verbose=False)
    tell(steps=first.global_step, bias=[tested["bias"], again["bias"]], jobs=[first.job_id, one.job_id])


def idle(model: Tiny, data: object) -> None:
    first = trainer(job={"idle_limit_s": 0.5})
    first.fit(model, data)
    weights, job = model.net.weight.tolist(), first.job_id
    if not gl.in_job():
        end_of(job)
    first.test(model, data, verbose=False)
    tell(kept=model.net.weight.tolist() == weights, jobs=[job, first.job_id], steps=first.global_step)


def keeping(model: Tiny, data: object) -> None:
    """The newest checkpoint is kept, by a job that has ended meanwhile and by another one."""
    newest = pl.callbacks.ModelCheckpoint("kept", save_top_k=1, save_last="link")
    made = trainer(job={"idle_limit_s": 0.5}, callbacks=[newest], enable_checkpointing=True)
    made.fit(model, data)
    first = sorted(os.listdir("kept"))
    if not gl.in_job():
        end_of(made.job_id)
    made.fit_loop.max_epochs = 2
    made.fit(model, data)
    tell(first=first, then=sorted(os.listdir("kept")), link=os.readlink("kept/last.ckpt"), last=newest.last_model_path)


def writing(model: Tiny, data: object) -> None:
    def note() -> None:
        with open("notes.txt", "a") as notes:
            notes.write(f"{os.getpid()}\n")

    note()
    made = trainer(max_epochs=2)
    model.writes = True
    made.fit(model, data)
    note()
    made.save_checkpoint("after.ckpt")
    if gl.in_job():
        with open("theirs.txt", "w") as theirs:
            theirs.write("of the job\n")
    made.test(model, data, verbose=False)
    with open("notes.txt") as notes:
        tell(pid=os.getpid(), notes=[int(line) for line in notes], files=sorted(os.listdir()), inner=os.listdir("empty"))


def failing(model: Tiny, data: object) -> None:
    hooked: list[str] = []
    hook = pl.callbacks.LambdaCallback(on_exception=lambda *given: hooked.append(type(given[-1]).__name__))
    model.fail_on = 1
    first = trainer(callbacks=[hook])
    try:
        first.fit(model, data)
    except BadRow as error:
        tell(args=list(error.args), notes=error.__notes__, status=first.state.status, hooked=hooked)
    model.fail_on = -1
    second = trainer()
    second.fit(model, data)
    tell(steps=second.global_step, jobs=[first.job_id, second.job_id])


def diverging(model: Tiny, data: object) -> None:
    made = trainer()
    if made.is_global_zero:
        made.fit(model, data)


def plain(model: Tiny, data: object) -> None:
    before = dict(os.environ)
    made = trainer()
    made.fit(model, data)
    tell(argv=sys.argv, steps=made.global_step, environment=dict(os.environ) == before, cwd=os.getcwd())


if __name__ == "__main__":
    rows = DataLoader(TensorDataset(torch.arange(64.0).reshape(16, 4) / 64), batch_size=4)
    {each.__name__: each for each in (edited, idle, keeping, writing, failing, diverging, plain)}[sys.argv[1]](Tiny(), rows)
