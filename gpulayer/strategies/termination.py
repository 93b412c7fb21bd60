"""SIGTERM in a job's ranks: they agree on it between two batches; where that takes too long, each is broken off."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from gpulayer.runtime import faults, main

PATIENCE_S = 2.0
"""How long a rank may take to the place where all agree to end, before it is broken off wherever it is."""

_GROUP_S = 2.0
_WORD_S = 1.0
"""How long after the signal its meaning may still be on the way: it comes over the rank's socket, read by another thread."""
_AGREED = "_gpulayer_agreed"
"""Marks the end that all ranks came to at one place: their hooks may still meet in collectives."""

_log = logging.getLogger(__name__)


class Wish:
    """The wish that a call ends, as this process hears it: noted first, and after a while raised in the main thread.

    ``by_user`` says, within so many seconds, whether it is a Ctrl-C at the caller: then what ends the call is a
    KeyboardInterrupt, as it would be in a local run. ``alone`` says that this rank was broken off, or its peers were:
    nobody waits in collectives any more.
    """

    def __init__(self, namespace: str, by_user: Callable[[float], bool]) -> None:
        self.asked = False
        self.alone = False
        self._terminated = _exception_of(namespace)
        self._by_user = by_user
        self._pid = os.getpid()
        self._breakable = self._due = False
        self._timer: threading.Timer | None = None
        self._before: Any = None

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Hear SIGTERM inside of the block; Lightning's own handlers come and go within."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._before = signal.signal(signal.SIGTERM, self._on_sigterm)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, self._before if self._before is not None else signal.SIG_DFL)

    @contextlib.contextmanager
    def breakable(self) -> Iterator[None]:
        """Allow that what runs inside of the block is broken off."""
        self._breakable = True
        try:
            yield
        finally:
            self._breakable = False
            if self._timer is not None:
                self._timer.cancel()

    def meant_by(self, error: BaseException) -> BaseException:
        """Return what ended the call: the user's interrupt, where an error is only how this rank noticed it."""
        by_peer = faults.tells_of_a_peer(error)
        if not self.asked or not (by_peer or isinstance(error, self._terminated)):
            return error
        self.alone = self.alone or not hasattr(error, _AGREED)
        if not self._by_user(_WORD_S):
            return error
        meant = KeyboardInterrupt().with_traceback(error.__traceback__)
        meant.__cause__ = error if by_peer else None
        return meant

    def leave_peers(self) -> None:
        """Take the process group down, so that hooks of the user's don't wait in it for ranks that are elsewhere."""
        thread = threading.Thread(target=main.destroy_process_group, daemon=True)
        thread.start()
        thread.join(_GROUP_S)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a forked child of the user's
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
        elif self._due:
            self._break_off()
        else:
            self.asked = True
            if callable(self._before):
                self._before(number, frame)
            if self._breakable and self._timer is None:
                self._timer = threading.Timer(PATIENCE_S, self._remind)
                self._timer.daemon = True
                self._timer.start()

    def _break_off(self) -> None:
        self._due = False
        if self._breakable:
            self.alone = True
            raise KeyboardInterrupt if self._by_user(0.0) else self._terminated

    def _remind(self) -> None:
        """Signal the main thread once more: only a signal wakes it from a sleep or a system call."""
        if self._breakable:
            self._due = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def agree_between_batches(trainer: Any, namespace: str) -> None:
    """Have a fit end on all ranks at the same batch when they are asked to end.

    Lightning 2.6 broadcasts inside of its signal handler, and a rank that was asked leaves its loop alone: the others then
    wait in another collective until they are killed, and no exception checkpoint is saved. Here the handler only takes
    note, and rank 0's note is what Lightning's own broadcast before each batch tells. Older versions are left as they are.
    """
    loop = trainer.fit_loop.epoch_loop
    if not hasattr(loop, "_broadcast_sigterm_tensor") or isinstance(vars(loop).get("_broadcast_sigterm_tensor"), _Agreement):
        return
    agreement = _Agreement(trainer, _exception_of(namespace))
    loop._broadcast_sigterm_tensor = agreement
    trainer._signal_connector._sigterm_notifier_fn = agreement.on_sigterm


def _exception_of(namespace: str) -> type[BaseException]:
    found: type[BaseException] = importlib.import_module(f"{namespace}.utilities.exceptions").SIGTERMException
    return found


class _Agreement:
    """Stands in for the broadcast that a training loop makes before each batch."""

    def __init__(self, trainer: Any, exception: type[BaseException]) -> None:
        self._trainer = trainer
        self._exception = exception
        self._asked = False

    def on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Take note; where no other rank waits for this one's batches, Lightning may act on it by itself."""
        if not self._asked:
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
            agreed = self._exception()
            setattr(agreed, _AGREED, True)
            raise agreed

    def _is_collective(self) -> bool:
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        return distributed and self._trainer.world_size > 1 and self._trainer.state.fn == "fit"
