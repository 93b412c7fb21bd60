"""A Trainer in the job takes over the caller's paths, logger versions and listings, in its own places for them."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from gpulayer.strategies import fingerprint, parts
from gpulayer.strategies.call_settings import CallSettings, CheckpointSettings, LoggerSettings
from gpulayer.strategies.paths import PathMap

_MARK = "_gpulayer_original"


@dataclass
class Listing:
    """The names that the caller has in a checkpoint callback's folder and that this run hasn't removed."""

    names: set[str]


_LISTINGS: WeakKeyDictionary[Any, Listing] = WeakKeyDictionary()


def adopt(trainer: Any, settings: CallSettings, paths: PathMap) -> None:
    """Give the Trainer, its loggers and checkpoint callbacks the caller's settings."""
    root = settings.default_root_dir
    if root is not None:
        _move(trainer, parts.ROOT_DIR, root, paths)
    for logger, said in zip(trainer.loggers, settings.loggers, strict=False):
        _adopt_logger(logger, said, paths)
    for callback, said_of in zip(trainer.checkpoint_callbacks, settings.checkpoints, strict=False):
        _adopt_checkpoint(callback, said_of, paths)


def _move(holder: Any, name: str, callers: str, paths: PathMap) -> None:
    """Set an attribute that holds a folder to the job's place for it; one that is right already keeps its spelling."""
    now = getattr(holder, "__dict__", {}).get(name)
    if not isinstance(now, str | os.PathLike) or "://" in os.fspath(now) or "://" in callers:
        return
    place = paths.to_job(callers)
    here = os.path.abspath(os.path.expanduser(os.fspath(now)))
    if here not in (place, os.path.realpath(place)):
        setattr(holder, name, place)


def _adopt_logger(logger: Any, said: LoggerSettings, paths: PathMap) -> None:
    if said.version is not None and hasattr(logger, parts.LOGGER_VERSION):
        setattr(logger, parts.LOGGER_VERSION, said.version)
    if said.save_dir is None:
        return
    own = _own_folder(logger)  # another one than the caller's, where the script made it of the time or of a random name
    for name in parts.LOGGER_FOLDERS:
        now = getattr(logger, "__dict__", {}).get(name)
        if isinstance(now, str | os.PathLike) and os.path.abspath(os.fspath(now)) in (own, said.save_dir):
            _move(logger, name, said.save_dir, paths)


def _own_folder(logger: Any) -> str | None:
    with contextlib.suppress(Exception):  # a logger of the user's may answer in its own way
        return os.path.abspath(str(logger.save_dir))
    return None


def _adopt_checkpoint(callback: Any, said: CheckpointSettings, paths: PathMap) -> None:
    if said.dirpath is not None:
        _move(callback, "dirpath", said.dirpath, paths)
    with contextlib.suppress(TypeError):  # a callback that can't be hashed
        _LISTINGS[callback] = Listing(set(said.names))


def forget(path: str) -> None:
    """The run removed a file: the caller's copy of it, if there is one, is the run's own."""
    folder, name = os.path.split(path)
    for callback, listing in list(_LISTINGS.items()):
        if _is_folder(callback, folder):
            listing.names.discard(name)


def count_callers_files(model_checkpoint: Any) -> None:
    """Have ``ModelCheckpoint.file_exists`` count the caller's files as well, so that none is ever written over; once."""
    original: Callable[..., bool] = model_checkpoint.file_exists
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def file_exists(self: Any, filepath: Any, trainer: Any) -> bool:
        # All ranks have the caller's listing: none is left alone in Lightning's collective.
        listing = _LISTINGS.get(self)
        folder, name = os.path.split(os.fspath(filepath))
        if listing is not None and name in listing.names and _is_folder(self, folder):
            return True
        return original(self, filepath, trainer)

    setattr(file_exists, _MARK, original)
    model_checkpoint.file_exists = file_exists


def _is_folder(callback: Any, folder: str) -> bool:
    dirpath = getattr(callback, "dirpath", None)
    return dirpath is not None and os.path.abspath(os.fspath(dirpath)) == os.path.abspath(folder)


def hide_bars(trainer: Any) -> None:
    """Keep progress bars from drawing into a pipe; the objects stay what the user sees."""
    for callback in trainer.callbacks:
        if any(base.__name__ == "ProgressBar" for base in type(callback).__mro__):
            with contextlib.suppress(Exception):  # a bar of the user's need not know how
                callback.disable()


def checkpoint_path(asked: Any, settings: CallSettings, paths: PathMap, sent: str | None = None) -> Any:
    """Return the ``ckpt_path`` to pass on: what the caller resolved, where the job has it.

    A path that the script passed stays as it is when it opens here. A file that lies only at the caller's own place (same
    machine) is read there. What the caller ``sent`` counts where the job has not written the same path itself: another
    machine's file of that name is another file.
    """
    if sent is not None and settings.ckpt_path is not None:
        place = paths.to_job(settings.ckpt_path)
        return place if os.path.exists(place) else sent
    if isinstance(asked, str | os.PathLike) and os.path.exists(os.fspath(asked)) and not settings.ckpt_again:
        return asked
    callers = settings.ckpt_path
    if callers is None or "://" in callers:
        return asked if callers is None or asked not in ("best", "last", "hpc", None) else callers
    place = paths.to_job(callers)
    if os.path.exists(place) or not os.path.exists(callers):
        return place
    return callers


def shown_path(asked: Any, settings: CallSettings) -> Any:
    """Return what ``trainer.ckpt_path`` is to say after a call; None where Lightning's own path is the right one."""
    named = asked is not None and not (isinstance(asked, str) and fingerprint.is_keyword(asked))
    return asked if named and not settings.ckpt_again else settings.ckpt_shown
