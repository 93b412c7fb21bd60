"""predict over every kind of loader; prints as JSON what came back of each, and what the ranks wrote."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data.distributed import DistributedSampler

import gpulayer as gl

WORLD = int(os.environ.get("NODES", "1")) * int(os.environ["DEVICES"])


class Rows(Dataset[torch.Tensor]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index), float(index) ** 2])


class Stream(IterableDataset[torch.Tensor]):
    def __init__(self, count: int, own: bool = False) -> None:
        self.count, self.own = count, own

    def __iter__(self) -> Any:
        rank, world = (torch.distributed.get_rank(), WORLD) if self.own and gl.in_job() else (0, 1)
        return (torch.tensor([float(row), 0.0]) for row in range(rank, self.count, world))


class Backwards:
    """A user's own batch sampler, of unequal batches."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        left = list(range(self.count))[::-1]
        while left:
            size = 1 + len(left) % 3
            yield left[:size]
            left = left[size:]

    def __len__(self) -> int:
        return len(list(iter(self)))


class Model(pl.LightningModule):
    def __init__(self, form: str = "plain") -> None:
        super().__init__()
        self.form = form
        self.net = torch.nn.Linear(2, 1)
        torch.nn.init.constant_(self.net.weight, 0.5)
        self.heard: list[int] = []

    def predict_step(self, batch: torch.Tensor, batch_idx: int, dataloader_idx: int = 0) -> Any:
        found = batch.reshape(-1, 2)
        if self.form == "sum":
            return float(found.sum())
        if self.form == "nested":
            return {"rows": found, "more": (found[:, :1], [found * 2])}
        return found

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        return self.net(batch).mean()

    def test_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.log("rows", float(len(batch)))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Writer(BasePredictionWriter):
    def __init__(self) -> None:
        super().__init__("batch_and_epoch")

    def write_on_batch_end(self, trainer: Any, module: Any, prediction: Any, indices: Any, *_: Any) -> None:
        Path("written").mkdir(exist_ok=True)
        torch.save(indices, f"written/batch-{min(indices)}.pt")

    def write_on_epoch_end(self, trainer: Any, module: Any, predictions: Any, indices: Any) -> None:
        torch.save(indices, f"written/rank-{trainer.global_rank}.pt")


def loader(rows: int = 22, size: int = 4, **given: Any) -> DataLoader[Any]:
    return DataLoader(Rows(rows), batch_size=size, **given)


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return [round(float(each), 3) for each in value.reshape(-1)[::2]]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def main() -> None:
    pl.seed_everything(1)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    where = {"accelerator": os.environ["ACCELERATOR"], "num_nodes": int(os.environ.get("NODES", "1"))}

    def trainer(**given: Any) -> pl.Trainer:
        return pl.Trainer(devices=int(os.environ["DEVICES"]), **where, **quiet, **given)

    found: dict[str, Any] = {}

    def predict(name: str, loaders: Any, model: Any = None, shape: Any = None, **given: Any) -> Any:
        made = (shape or trainer()).predict(model or Model(), loaders, **given)
        found[name] = plain(made)
        return made

    one, jobs = trainer(max_epochs=1), []
    for call in (one.fit, one.test):
        call(Model(), loader())
        jobs.append(getattr(one.strategy, "job_id", None))
    first = predict("uneven", loader(), shape=one)
    predict("what a call is given of the one before", DataLoader(first, batch_size=None), shape=one)
    predict("several", [loader(8), loader(3), loader(5, 2)])
    predict("fewer batches than ranks", loader(3, 4))
    predict("a number for each batch", loader(), Model("sum"))
    predict("nested", loader(10), Model("nested"))
    predict("a batch sampler", DataLoader(Rows(17), batch_sampler=Backwards(17)))
    predict("no batches", DataLoader(Rows(5), batch_size=None))
    predict("a generator", DataLoader(Rows(9), 2, shuffle=True, generator=torch.Generator().manual_seed(4)))
    predict("workers", loader(11, 2, num_workers=2))
    predict("every rank the same", DataLoader(Stream(7), batch_size=2))
    predict("a list", [torch.ones(2, 2), torch.zeros(1, 2)])
    predict("limited", loader(), shape=trainer(limit_predict_batches=3))
    predict("half", loader(), shape=trainer(limit_predict_batches=0.5))
    predict("one batch", loader(), shape=trainer(fast_dev_run=True))
    predict("nothing returned", loader(16), shape=trainer(callbacks=[Writer()]), return_predictions=False)
    found["shuffled"] = sorted(row for made in trainer().predict(Model(), loader(9, 2, shuffle=True)) for row in plain(made))
    sampler = DistributedSampler(Rows(9), num_replicas=WORLD, rank=_rank(), shuffle=False)
    predict("a sampler of one's own", DataLoader(Rows(9), 4, sampler=sampler))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        predict("own shards", DataLoader(Stream(8, own=True), batch_size=2))
    found["jobs"] = len({*jobs, getattr(one.strategy, "job_id", None)})
    found["told"] = [str(each.message) for each in told if "gpulayer" in str(each.message)]
    found["files"] = sorted(path.name for path in Path("written").iterdir() if path.name.startswith("batch"))
    ranks = [torch.load(path, weights_only=True) for path in sorted(Path("written").glob("rank-*"))]
    found["ranks"] = len(ranks)
    found["written"] = sorted(index for rank in ranks for loaders in rank for batch in loaders for index in batch)
    print(json.dumps(found))


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


if __name__ == "__main__":
    main()
