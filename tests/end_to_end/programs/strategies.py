"""A fit and tests under each of many strategies, precisions and plugins; OUTCOME names the file for what came of them."""

import json
import os

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, ModelParallelStrategy
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import gpulayer as gl

AWAY = os.environ["ACCELERATOR"] == "gpulayer"
ON_CPU = {"resources": {"accelerator": "cpu"}}  # FSDP asks for GPUs unless one says otherwise


class Net(pl.LightningModule):
    def __init__(self, unused: bool = False):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        self.register_buffer("seen", torch.zeros(1))
        if unused:
            self.unused = torch.nn.Linear(2, 2)

    def loss(self, batch):
        return (self.net(batch[0]).float() - batch[1].float()).pow(2).mean()

    def training_step(self, batch, batch_idx):
        self.seen += 1
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch), sync_dist=True)

    def test_step(self, batch, batch_idx):
        self.log("test_loss", self.loss(batch), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Sharded(Net):
    """Shards itself, and a layer that only the job makes."""

    def configure_model(self):
        if hasattr(self, "late"):
            return
        self.late = torch.nn.Linear(1, 1)
        mesh = self.device_mesh["data_parallel"]
        for each in (self.net[0], self.net, self.late):
            fully_shard(each, mesh=mesh)

    def loss(self, batch):
        return (self.late(self.net(batch[0])) - batch[1]).pow(2).mean()


class Own(DDPStrategy):
    """A strategy of the user's own."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def reduce(self, tensor, group=None, reduce_op="mean"):
        return self.times * super().reduce(tensor, group, reduce_op)


class FSDPOnCPU(FSDPStrategy):
    """FSDP as Lightning has it, without a GPU."""

    def _setup_model(self, model):
        if any(isinstance(each, FullyShardedDataParallel) for each in model.modules()):
            return model
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), **self.kwargs)


class OwnIO(TorchCheckpointIO):
    def save_checkpoint(self, checkpoint, path, storage_options=None):
        super().save_checkpoint({**checkpoint, "own": "io"}, path, storage_options)


def fsdp(**options):
    return FSDPOnCPU(auto_wrap_policy={torch.nn.Linear}, state_dict_type="sharded", **options)


def rows(own_sampler=False):
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
    data = TensorDataset(x, x.sum(1, keepdim=True))
    sampler = (
        DistributedSampler(data, int(os.environ.get("WORLD_SIZE", "2")), int(os.environ.get("RANK", "0")), seed=5)
        if own_sampler
        else None
    )
    return DataLoader(data, batch_size=4, sampler=sampler)


CASES = {
    "unused": lambda: {"strategy": "ddp_find_unused_parameters_true"},
    "object": lambda: {"strategy": DDPStrategy(gradient_as_bucket_view=True, static_graph=True)},
    "own": lambda: {"strategy": Own(2.0)},
    "bf16": lambda: {"precision": "bf16-mixed"},
    "double": lambda: {"precision": "64-true"},
    "io": lambda: {"plugins": [OwnIO()]},
    "sampler": lambda: {"use_distributed_sampler": False},
    "fsdp": lambda: {"strategy": fsdp()},
    "fsdp_flat": lambda: {"strategy": fsdp(use_orig_params=False)},
    "sharded": lambda: {"strategy": ModelParallelStrategy(save_distributed_checkpoint=True)},
    "whole": lambda: {"strategy": ModelParallelStrategy(save_distributed_checkpoint=False)},
}


def trainer_of(name, **more):
    given = {"devices": 2, "max_epochs": 2, "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    checkpoint = ModelCheckpoint(f"kept/{name}", monitor="val_loss", filename="best")
    given |= {"callbacks": [checkpoint], **CASES[name](), **more}
    return gl.Trainer(accelerator="gpulayer", job=ON_CPU, **given) if AWAY else pl.Trainer(accelerator="cpu", **given)


def state_of(model):
    found = model.state_dict()
    return {name: (value.full_tensor() if hasattr(value, "full_tensor") else value).clone() for name, value in found.items()}


def main():
    outcome = {}
    for name in CASES:
        pl.seed_everything(3, verbose=False)
        model = (Sharded if name in ("sharded", "whole") else Net)(**({"unused": True} if name == "unused" else {}))
        trainer = trainer_of(name)
        trainer.fit(model, rows(name == "sampler"), rows())
        made = outcome[name] = {"state": state_of(model), "steps": trainer.global_step, "metrics": {}}
        made["metrics"] = {key: float(value) for key, value in trainer.callback_metrics.items()}
        made["trained"] = [key for key in made["state"] if key != "seen" and not key.startswith("unused")]
        made["moments"] = [list(each["exp_avg"].shape) for each in trainer.optimizers[0].state_dict()["state"].values()]
        if name.startswith("fsdp"):  # under torchrun a second call would shard what is sharded
            continue
        made["tests"] = [trainer.test(model, rows(), verbose=False)[0]["test_loss"]]
        with torch.no_grad():
            model.net[0].bias.fill_(7.0)
        made["tests"] += [trainer.test(model, rows(), verbose=False)[0]["test_loss"]]
    if AWAY:  # as many processes as Lightning likes may go on from parts that two wrote
        resumed = Sharded()
        trainer = trainer_of("sharded", num_nodes=3, devices=1, callbacks=[], enable_checkpointing=False)
        trainer.fit(resumed, rows(), ckpt_path="kept/sharded/best.ckpt")
        outcome["resumed"] = {"state": state_of(resumed), "steps": trainer.global_step}
    if os.environ.get("RANK", "0") == "0":
        torch.save(outcome, os.environ["OUTCOME"])
        print(json.dumps({name: each["steps"] for name, each in outcome.items()}))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


main()
