"""A fit and a test in a run of hydra; writes what a user would look at into the run's folder."""

import json
import os
from pathlib import Path

import hydra
import lightning.pytorch as pl
import torch
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Tiny(pl.LightningModule):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return self.net(batch[0]).pow(2).mean()

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("lr", self.hparams["lr"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams["lr"])


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config: object) -> None:
    place = HydraConfig.get().runtime.output_dir
    trainer = gl.Trainer(
        devices=2,
        max_steps=config.steps,  # type: ignore[attr-defined]
        logger=False,
        callbacks=[ModelCheckpoint(os.path.join(place, "kept"))],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = DataLoader(TensorDataset(torch.rand(16, 4)), batch_size=4)
    trainer.fit(Tiny(config.lr), data)  # type: ignore[attr-defined]
    first = getattr(trainer, "job_id", None)
    (tested,) = trainer.test(trainer.lightning_module, data, verbose=False)
    facts = {
        "lr": round(tested["lr"], 4),
        "steps": trainer.global_step,
        "job": trainer.job_id,
        "one job": first == trainer.job_id,
        "checkpoint": os.path.relpath(trainer.checkpoint_callback.best_model_path, place),
        "opens": os.path.exists(trainer.checkpoint_callback.best_model_path),
    }
    Path(place, "facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
