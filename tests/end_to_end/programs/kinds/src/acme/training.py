"""One fit, and what its program looked like from inside of it and here."""

import json
import os
import sys
import warnings

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer as gl


def facts() -> dict[str, object]:
    """What a program can see of how it was started."""
    main = sys.modules["__main__"]
    spec = main.__spec__
    return {
        "argv": sys.argv,
        "cwd": os.getcwd(),
        "name": main.__name__,
        "file": main.__file__,
        "package": main.__package__,
        "spec": None if spec is None else [spec.name, spec.origin],
        "imports from": sys.path[0],
        "sibling": getattr(sys.modules.get("neighbour"), "__file__", None),
        "this": __file__,
        "flags": [sys.flags.optimize, sys.flags.dev_mode, sys.flags.utf8_mode],
        "warnings": [each for each in sys.warnoptions if each != "default"],
        "raises": _raises(),
    }


def _raises() -> bool:
    try:
        warnings.warn("a warning", UserWarning, stacklevel=2)
    except UserWarning:
        return True
    return False


class Tiny(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.facts: dict[str, object] = {}
        self.copied = False

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        self.facts = facts()
        self.copied = __file__.startswith(os.environ.get("GPULAYER_OUTPUT_DIR", "-"))
        return self.net(batch[0]).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.001)


def train(devices: int) -> int:
    """Fit and print; the answer is the exit status."""
    here, net = facts(), Tiny()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    data = DataLoader(TensorDataset(torch.rand(16, 4)), batch_size=4)
    gl.Trainer(devices=devices, max_epochs=1, **quiet).fit(net, data)
    print(json.dumps({"here": here, "there": net.facts, "copied": net.copied}))
    return 3


def two() -> int:
    """Train on two devices, as a command does."""
    return train(devices=2)
