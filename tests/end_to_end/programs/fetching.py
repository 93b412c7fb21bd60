"""Fits of which not all comes home at once; says as JSON what a user would look at."""

import json
import os

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Tiny(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.epochs = 0

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        loss = self.net(batch[0]).pow(2).mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("worse", float(self.current_epoch), sync_dist=True)

    def on_train_epoch_end(self) -> None:
        self.epochs += 1

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("bias", self.net.bias.detach().sum(), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.1)


def rows() -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(TensorDataset(torch.arange(64.0).reshape(16, 4) / 64), batch_size=4)


def trainer(name: str, **job: object) -> pl.Trainer:
    return gl.Trainer(
        devices=1,
        max_epochs=2,
        logger=CSVLogger("logs", name=name, version=0),
        log_every_n_steps=1,
        callbacks=[ModelCheckpoint(name, monitor="worse", save_top_k=-1, save_last=True, filename="{epoch}")],
        enable_progress_bar=False,
        enable_model_summary=False,
        job=job,
    )


def bias_of(path: str) -> float:
    return float(Tiny.load_from_checkpoint(path).net.bias.detach().sum())


def looked_at(made: pl.Trainer) -> dict[str, object]:
    """Say how the files of a Trainer lie here."""
    saved = made.checkpoint_callback
    folder = os.path.relpath(saved.dirpath)
    return {
        "here": sorted(os.listdir(folder)) if os.path.isdir(folder) else [],
        "rows": os.path.exists(f"logs/{folder}/version_0/metrics.csv"),
        "best": saved.best_model_path,
        "last": saved.last_model_path,
        "scored": sorted(saved.best_k_models),
        "loss": float(made.callback_metrics.get("loss", -1)),
        "step": made.global_step,
    }


def refused(act: object) -> str:
    try:
        act()  # type: ignore[operator]
    except gl.GPULayerError as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    return ""


def tell(**facts: object) -> None:
    if not gl.in_job():
        print(json.dumps(facts), flush=True)


def end_of(job_id: str) -> None:
    from gpulayer import plane
    from gpulayer.spec.news import Cursor

    opened, cursor = plane.open(), Cursor()
    while not (news := opened.news(job_id, cursor, timeout_s=30, lines=False)).job.state.terminal:
        cursor = news.cursor
    opened.close()


def little() -> None:
    """Only the metrics come; the next call is another job's."""
    pl.seed_everything(3)
    model, made = Tiny(), trainer("little", fetch="metrics", idle_limit_s=0.5)
    nothing = "" if gl.in_job() else refused(lambda: gl.fetch(made))
    made.fit(model, rows(), rows())
    first, facts, saved = made.job_id, {}, made.checkpoint_callback
    newest = saved.last_model_path  # a test with another checkpoint takes its callback states over
    if not gl.in_job():
        facts = looked_at(made) | {
            "epochs": model.epochs,
            "opens": [bias_of(saved.best_model_path), bias_of(saved.last_model_path)],
            "touched": [
                refused(lambda: model.net(torch.rand(1, 4))),
                refused(lambda: made.save_checkpoint("old.ckpt")),
                refused(lambda: made.optimizers),
            ],
        }
        end_of(first)
    (fitted,) = made.test(model, rows(), verbose=False)
    (best,) = made.test(model, rows(), ckpt_path=saved.best_model_path, verbose=False)
    (last,) = made.test(model, rows(), ckpt_path=newest, verbose=False)
    if not gl.in_job():
        facts |= {"jobs": first != made.job_id, "tested": [fitted["bias"], best["bias"], last["bias"]]}
    gl.fetch(made)
    gl.fetch(made)
    if not gl.in_job():
        facts |= {"steps of optimizer": float(made.optimizers[0].state_dict()["state"][0]["step"])}
        facts |= {"fetched": looked_at(made) | {"epochs": model.epochs, "bias": float(model.net.bias.detach().sum())}}
    tell(mode="little", nothing=nothing, **facts)


def files(mode: str, **job: object) -> None:
    """The weights come, and not all checkpoints; a job may go on from one that didn't."""
    pl.seed_everything(3)
    model, made = Tiny(), trainer(mode, **job)
    made.fit(model, rows(), rows())
    facts = {} if gl.in_job() else looked_at(made) | {"bias": float(model.net.bias.detach().sum())}
    (best,) = made.test(model, rows(), ckpt_path="best", verbose=False)
    made.fit_loop.max_epochs = 3
    made.fit(model, rows(), rows(), ckpt_path="last")
    gl.fetch(made)
    tell(mode=mode, job=made.job_id, tested=best["bias"], then={} if gl.in_job() else looked_at(made), **facts)


if __name__ == "__main__":
    little()
    files("last", fetch="last")
    files("over", fetch_limit=3000)
