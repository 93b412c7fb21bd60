"""A fit that fails in the words of a secret; prints what its caller sees of it, as a JSON line."""

import json
import os
import traceback

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


class Refused(Exception):
    def __init__(self, key: str, url: str) -> None:
        super().__init__(f"{key} was refused", url)
        self.key = key
        self.add_note(f"asked with {key}")


class Asking(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        key = os.environ["API_KEY"]
        print("key:", key, flush=True)
        raise Refused(key, f"https://h/?key={key}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = gl.Trainer(devices=1, max_epochs=1, job={"secrets": ["API_KEY"]}, **quiet)
    try:
        trainer.fit(Asking(), DataLoader(TensorDataset(torch.randn(4, 4))))
    except Refused as refused:
        told = "".join(traceback.format_exception(refused))
        print(json.dumps({"args": refused.args, "key": refused.key, "told": told}))
