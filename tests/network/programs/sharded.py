"""A fit on two machines whose checkpoints are folders that every rank writes its part of; then the caller reads them whole."""

import json
import os

import lightning.pytorch as pl
import torch
import torch.distributed.checkpoint as dcp
from lightning.pytorch.strategies import DDPStrategy
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl

ROWS = 8


class Sharded(DDPStrategy):
    """Saves as FSDP does with ``state_dict_type="sharded"``: each rank its rows, into one folder."""

    def save_checkpoint(self, checkpoint, filepath, storage_options=None):
        mesh = init_device_mesh("cpu", (self.world_size,))
        rows = torch.arange(float(ROWS)).reshape(ROWS, 1) + checkpoint["epoch"]
        dcp.save({"rows": distribute_tensor(rows, mesh, [Shard(0)])}, checkpoint_id=os.fspath(filepath))


class Tiny(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return self.net(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    checkpoint = pl.callbacks.ModelCheckpoint("kept", filename="{epoch}", save_top_k=1)
    trainer = gl.Trainer(
        num_nodes=2,
        devices=1,
        max_epochs=2,
        strategy=Sharded(),
        callbacks=[checkpoint],
        job={"target": "remote"},
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Tiny(), DataLoader(TensorDataset(torch.rand(16, 4)), batch_size=4))
    path = checkpoint.best_model_path
    read = _load_state_dict_from_keys({"rows"}, checkpoint_id=path)
    found = sorted(os.path.relpath(os.path.join(at, name), path) for at, _, names in os.walk(path) for name in names)
    print(json.dumps({"job": trainer.job_id, "path": path, "files": found, "rows": read["rows"].flatten().tolist()}))
