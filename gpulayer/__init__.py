"""GPUlayer: Trainer(accelerator="gpulayer").fit() as a distributed job that runs anywhere and comes back whole."""

from __future__ import annotations

__version__ = "0.1.0"
