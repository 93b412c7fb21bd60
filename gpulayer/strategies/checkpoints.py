"""Checkpoints in the job: announced when written, kept before they are overwritten, with the caller's paths inside."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpulayer.strategies import adoption
from gpulayer.strategies.paths import PathMap, below

_WRAPPED = "_gpulayer_wrapped"
_SHARD = re.compile(r"__(\d+)_\d+\.distcp\Z")


class Link(Protocol):
    """What of the rank's link to its worker is used here."""

    def announce(
        self,
        path: str,
        files: tuple[str, ...] = ...,
        *,
        epoch: int | None = ...,
        step: int | None = ...,
        monitor: str | None = ...,
        score: float | None = ...,
        mode: Any = ...,
        removed: bool = ...,
    ) -> int: ...

    def await_kept(self, serial: int) -> None: ...


@dataclass
class Announcer:
    """Tells of every checkpoint that a rank writes or removes below the work folder; one per process."""

    link: Link
    rank: int
    work: str
    gone: list[str] = field(default_factory=list)
    """The paths that were removed since somebody last took them."""
    _pending: dict[str, int] = field(default_factory=dict)

    def before_change(self, path: str) -> None:
        """Hold until the worker has its own copy of what lies at ``path`` by our own announcement."""
        serial = self._pending.pop(path, None)
        if serial is not None:
            self.link.await_kept(serial)

    def written(self, path: str, checkpoint: dict[str, Any], callbacks: Iterable[Any]) -> None:
        """Announce a save that has returned."""
        if below(path, self.work) is None:
            return
        files = files_of(path, self.rank)
        monitor, score, mode = _score(path, callbacks)
        serial = self.link.announce(
            path,
            files,
            epoch=_number(checkpoint.get("epoch")),
            step=_number(checkpoint.get("global_step")),
            monitor=monitor,
            score=score,
            mode=mode,
        )
        if files:
            self._pending[path] = serial

    def removed(self, path: str) -> None:
        """Announce that the job deleted a checkpoint."""
        adoption.forget(path)
        self.gone.append(path)
        if below(path, self.work) is not None:
            self.link.announce(path, (), removed=True)


def files_of(path: str, rank: int) -> tuple[str, ...]:
    """Return the files of a checkpoint that this rank wrote: rank 0 all, but of sharded ones each its own."""
    if not os.path.isdir(path):
        return (path,) if rank == 0 and os.path.exists(path) else ()
    found = []
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            shard = _SHARD.match(name)
            owner = int(shard.group(1)) if shard else 0
            if owner == rank:
                found.append(os.path.join(folder, name))
    return tuple(found)


def _score(path: str, callbacks: Iterable[Any]) -> tuple[str | None, float | None, Any]:
    """Return what the callback that saves ``path`` monitors, its value, and whether ``min`` or ``max`` is better."""
    for callback in callbacks:
        monitor, scores = getattr(callback, "monitor", None), getattr(callback, "best_k_models", None)
        if not isinstance(monitor, str) or not isinstance(scores, dict):
            continue
        score = scores.get(path)
        if score is None and getattr(callback, "last_model_path", None) == path:
            score = callback.current_score
        if score is not None:
            mode = getattr(callback, "mode", None)
            return monitor, float(score), mode if mode in ("min", "max") else None
    return None, None, None


def named(callbacks: Iterable[Any]) -> dict[str, list[str]]:
    """Return the paths that checkpoint callbacks call their best and their last."""
    found: dict[str, list[str]] = {"best": [], "last": []}
    for callback in callbacks:
        for what, paths in found.items():
            path = getattr(callback, f"{what}_model_path", None)
            if isinstance(path, str) and path:
                paths.append(path)
    return found


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def map_text(value: Any, text: Callable[[str], str]) -> Any:
    """Return plain data with every string in it translated; objects are left as they are."""
    if isinstance(value, str):
        return text(value) if type(value) is str else value
    if type(value) is dict:
        return {map_text(key, text): map_text(item, text) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map_text(item, text) for item in value)
    return value


def with_callbacks(checkpoint: dict[str, Any], text: Callable[[str], str]) -> dict[str, Any]:
    """Return a checkpoint whose callback states name other paths; everything else is shared with the given one."""
    if "callbacks" not in checkpoint:
        return checkpoint
    return {**checkpoint, "callbacks": map_text(checkpoint["callbacks"], text)}


def wrap(strategy: Any, trainer_of: Callable[[], Any], announcer: Announcer, paths: Callable[[], PathMap]) -> None:
    """Have a strategy announce what it writes, and speak of the caller's paths inside of its checkpoints.

    A user's own ``CheckpointIO`` stays where it is: what it is given already names the caller's paths.
    """
    if _WRAPPED in vars(strategy):  # the user gives one strategy to several Trainers
        return
    setattr(strategy, _WRAPPED, True)
    save, load, remove = strategy.save_checkpoint, strategy.load_checkpoint, strategy.remove_checkpoint

    @functools.wraps(save)
    def save_checkpoint(checkpoint: dict[str, Any], filepath: Any, *args: Any, **kwargs: Any) -> None:
        path = os.path.abspath(os.fspath(filepath))
        announcer.before_change(path)
        trainer = trainer_of()
        callbacks = [] if trainer is None else list(trainer.checkpoint_callbacks)
        facts = {name: checkpoint.get(name) for name in ("epoch", "global_step")}
        save(with_callbacks(checkpoint, paths().caller_text), filepath, *args, **kwargs)
        background = _background(strategy) if announcer.rank == 0 else None
        if background is None:
            announcer.written(path, facts, callbacks)
        else:
            background.submit(announcer.written, path, facts, callbacks)

    @functools.wraps(load)
    def load_checkpoint(*args: Any, **kwargs: Any) -> Any:
        checkpoint = load(*args, **kwargs)
        return with_callbacks(checkpoint, paths().job_text) if isinstance(checkpoint, dict) else checkpoint

    @functools.wraps(remove)
    def remove_checkpoint(filepath: Any) -> None:
        path = os.path.abspath(os.fspath(filepath))
        announcer.before_change(path)
        remove(filepath)
        announcer.removed(path)

    strategy.save_checkpoint = save_checkpoint
    strategy.load_checkpoint = load_checkpoint
    strategy.remove_checkpoint = remove_checkpoint


def _background(strategy: Any) -> Any:
    """Return the single-threaded executor of a checkpoint I/O that saves in the background, or None.

    What is submitted to it now runs when the saves before it are done.
    """
    return getattr(getattr(strategy, "_checkpoint_io", None), "_executor", None)
