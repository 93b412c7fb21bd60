"""A fit whose job is left to itself, and how it comes home: says as JSON what a user would look at."""

import json
import os
import sys

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Bad(ValueError):
    """The user's own."""


class Tiny(pl.LightningModule):
    def __init__(self, width: int = 4, fails: bool = False) -> None:
        super().__init__()
        self.net = torch.nn.Linear(width, 1)
        self.fails = fails

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        if self.fails:
            raise Bad("row", batch_idx)
        loss = self.net(batch[0]).pow(2).mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.net(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(**job: object) -> pl.Trainer:
    return gl.Trainer(
        devices=2,
        max_epochs=2,
        logger=False,
        callbacks=[ModelCheckpoint("kept", save_top_k=-1)],
        enable_progress_bar=False,
        enable_model_summary=False,
        job=job,
    )


def data() -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(TensorDataset(torch.arange(64.0).reshape(16, 4) / 64), batch_size=4)


def left(model: pl.LightningModule, made: pl.Trainer) -> dict[str, object]:
    path = made.checkpoint_callback.best_model_path
    return {
        "weights": [round(float(value), 5) for tensor in model.parameters() for value in tensor.reshape(-1)],
        "steps": made.global_step,
        "status": made.state.status.value,
        "loss": round(float(made.callback_metrics["loss"]), 5),
        "checkpoint": os.path.relpath(path),
        "opens": len(torch.load(path, weights_only=True)["state_dict"]),
    }


def refused(call: object, *given: object, **more: object) -> str:
    try:
        call(*given, **more)  # type: ignore[operator]
    except (gl.CallRefused, gl.StaleModule) as refusal:
        return str(refusal)
    return ""


def main(act: str, job_id: str = "") -> None:
    pl.seed_everything(3)
    if act == "whole":
        made, model = trainer(), Tiny()
        made.fit(model, data())
        print(json.dumps(left(model, made)))
    elif act in ("leave", "leave failing"):
        made, model = trainer(detach=True), Tiny(fails=act == "leave failing")
        before = [value.clone() for value in model.parameters()]
        answer = made.fit(model, data())
        same = all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
        again = refused(made.validate, model, data())
        print(json.dumps({"job": made.job_id, "answer": answer, "same": same, "again": again, "steps": made.global_step}))
    elif act == "here":
        made, model = trainer(detach=True), Tiny()
        made.fit(model, data())
        gl.attach(made.job_id)
        facts = left(model, made)  # in a later job as well
        made.strategy.options = gl.JobOptions()
        made.fit_loop.max_epochs = 3
        made.fit(model, data())
        failing = trainer(detach=True)
        failing.fit(Tiny(fails=True), data())
        print("left", flush=True)
        try:
            gl.attach(failing.job_id)
        except Bad as bad:
            facts["bad"] = bad.args
        made.validate(model, data(), verbose=False)
        print(json.dumps({**facts, "went on to": [made.current_epoch, made.global_step]}))
    elif act == "attach to little":
        made, model = trainer(fetch="metrics"), Tiny()
        gl.attach(job_id, made, model, train_dataloaders=data())
        path = made.checkpoint_callback.best_model_path
        opens = float(Tiny.load_from_checkpoint(path).net.bias.detach().sum())
        stale = [refused(model.state_dict), refused(made.validate, model, data())]
        here = os.path.exists("kept")
        gl.fetch(made)
        print(json.dumps({**left(model, made), "away": path, "opened": opens, "stale": stale, "here": here}))
    else:
        made, model = trainer(), Tiny()
        other = refused(gl.attach, job_id, trainer(), Tiny(width=5))
        nothing = refused(gl.attach, job_id)
        try:
            gl.attach(job_id, made, model, train_dataloaders=data())
        except Bad as bad:
            print(json.dumps({"bad": bad.args}))
            return
        print(json.dumps({**left(model, made), "other": other, "nothing": nothing}))


if __name__ == "__main__":
    main(*sys.argv[1:])
