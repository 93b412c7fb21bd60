"""SIGTERM in a job's ranks: they agree on it between two batches, never inside of a collective."""

from __future__ import annotations

import contextlib
import importlib
import logging
from types import FrameType
from typing import Any

import torch

_log = logging.getLogger(__name__)


def agree_between_batches(trainer: Any, namespace: str) -> None:
    """Have a fit end on all ranks at the same batch when they are asked to end.

    Lightning 2.6 broadcasts inside of its signal handler, and a rank that was asked leaves its loop alone: the others then
    wait in another collective until they are killed, and no exception checkpoint is saved. Here the handler only takes
    note, and rank 0's note is what Lightning's own broadcast before each batch tells. Older versions are left as they are.
    """
    loop = trainer.fit_loop.epoch_loop
    if not hasattr(loop, "_broadcast_sigterm_tensor") or isinstance(vars(loop).get("_broadcast_sigterm_tensor"), _Agreement):
        return
    agreement = _Agreement(trainer, importlib.import_module(f"{namespace}.utilities.exceptions").SIGTERMException)
    loop._broadcast_sigterm_tensor = agreement
    trainer._signal_connector._sigterm_notifier_fn = agreement.on_sigterm


class _Agreement:
    """Stands in for the broadcast that a training loop makes before each batch."""

    def __init__(self, trainer: Any, exception: type[BaseException]) -> None:
        self._trainer = trainer
        self._exception = exception
        self._asked = False

    def on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Take note; where no other rank waits for this one's batches, Lightning may act on it by itself."""
        _log.info("Received SIGTERM: %s", number)
        self._asked = True
        if not self._is_collective():
            self._trainer._signal_connector.received_sigterm = True

    def __call__(self) -> None:
        asked = torch.tensor([int(self._asked)], device=self._trainer.strategy.root_device)
        torch.distributed.broadcast(asked, src=0)
        if asked.item():
            self._trainer._signal_connector.received_sigterm = True
            with contextlib.suppress(Exception):
                torch.distributed.barrier()
            raise self._exception

    def _is_collective(self) -> bool:
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        return distributed and self._trainer.world_size > 1 and self._trainer.state.fn == "fit"
