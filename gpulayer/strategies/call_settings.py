"""What the caller's word for a call says of its files: where they go, which versions they have, which are there already."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from gpulayer.strategies import codec, fingerprint, parts, random_state
from gpulayer.strategies.outcome import bodies

if TYPE_CHECKING:
    from gpulayer.strategies.resume import Found
    from gpulayer.strategies.session import CallRequest


@dataclass
class LoggerSettings:
    """One logger as the caller resolved it."""

    save_dir: str | None = None
    name: str | None = None
    version: int | str | None = None


@dataclass
class CheckpointSettings:
    """One checkpoint callback: where it writes and which names are there (None where it decides in the call)."""

    dirpath: str | None = None
    names: list[str] = field(default_factory=list)


@dataclass
class CallSettings:
    """All paths are the caller's and absolute. ``ckpt_path`` is what best, last or hpc (or a path) means at the caller.

    ``ckpt_shown`` is what ``trainer.ckpt_path`` calls it where that is another name, ``ckpt_again`` that it counts whatever the
    script passes. ``random`` are the random states that the call before left at the caller.
    """

    default_root_dir: str | None = None
    loggers: list[LoggerSettings] = field(default_factory=list)
    checkpoints: list[CheckpointSettings] = field(default_factory=list)
    ckpt_path: str | None = None
    ckpt_shown: str | None = None
    ckpt_again: bool = False
    random: dict[str, Any] | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that the call writes to."""
        found = [self.default_root_dir, *(logger.save_dir for logger in self.loggers), *(c.dirpath for c in self.checkpoints)]
        return tuple(dict.fromkeys(folder for folder in found if folder))


def collect(request: CallRequest, found: Found | None = None) -> CallSettings:
    """Take the caller's settings for a call; ``found`` is the file to load where the caller has found it already."""
    settings = take(request.trainer, request.ckpt_path if found is None else found.path, request.model_given)
    return settings if found is None else replace(settings, ckpt_shown=found.shown, ckpt_again=found.again)


def take(trainer: Any, ckpt_path: str | None, model_given: bool) -> CallSettings:
    """Read the caller's Trainer; loggers resolve their versions now, as they would in a local run."""
    loggers = [_logger(logger) for logger in trainer.loggers]
    meant = resolved(trainer, ckpt_path, model_given)
    return CallSettings(
        default_root_dir=_absolute(trainer.default_root_dir),
        loggers=loggers,
        checkpoints=[_checkpoint(callback, trainer, loggers) for callback in trainer.checkpoint_callbacks],
        ckpt_path=_absolute(meant),
        ckpt_shown=meant if ckpt_path is None or fingerprint.is_keyword(ckpt_path) else None,
        random=random_state.left(),
    )


def _absolute(path: Any) -> str | None:
    if path is None:
        return None
    text = str(os.fspath(path))
    return text if "://" in text else os.path.abspath(os.path.expanduser(text))


def _logger(logger: Any) -> LoggerSettings:
    found = LoggerSettings()
    with contextlib.suppress(Exception):  # a logger of the user's may answer in its own way, or not yet
        found.save_dir = _absolute(logger.save_dir)
        if logger.name is None or isinstance(logger.name, str):
            found.name = logger.name
        if isinstance(logger.version, int | str):
            found.version = logger.version
    return found


def _checkpoint(callback: Any, trainer: Any, loggers: list[LoggerSettings]) -> CheckpointSettings:
    dirpath = getattr(callback, "dirpath", None)
    folder = _absolute(dirpath) if dirpath is not None else _default_dirpath(trainer, loggers)
    names: list[str] = []
    if folder is not None and "://" not in folder:
        with contextlib.suppress(OSError):
            names = sorted(os.listdir(folder))
    return CheckpointSettings(folder if dirpath is not None else None, names)


def _default_dirpath(trainer: Any, loggers: list[LoggerSettings]) -> str | None:
    """Where ModelCheckpoint will go without a dirpath: below the first logger, else below the root."""
    root = _absolute(trainer.default_root_dir)
    if not loggers:
        return None if root is None else os.path.join(root, "checkpoints")
    first = loggers[0]
    version = first.version if isinstance(first.version, str) else f"version_{first.version}"
    return os.path.join(first.save_dir or root or "", str(first.name), version, "checkpoints")


def resolved(trainer: Any, ckpt_path: str | None, model_given: bool) -> str | None:
    """Ask Lightning what a keyword (or none) means here; its complaints are left to the call itself."""
    if ckpt_path is not None and not fingerprint.is_keyword(ckpt_path):
        return ckpt_path
    if ckpt_path is not None and ckpt_path.startswith("registry"):
        return None
    if parts.user_checkpoint(trainer) is not None:
        return str(os.fspath(parts.user_checkpoint(trainer)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = parts.resolve_checkpoint(trainer, ckpt_path, model_given)
    except Exception:  # what is wrong with it, the job says in Lightning's words
        return None
    return None if found is None else str(os.fspath(found))


def pack(settings: CallSettings) -> bytes:
    """Write settings as the blob that travels with the go."""
    return _packed(asdict(settings))


def unpack(source: Path | IO[bytes]) -> CallSettings:
    """Read what ``pack`` wrote."""
    found = _unpacked(source)
    loggers = [LoggerSettings(**logger) for logger in found["loggers"]]
    checkpoints = [CheckpointSettings(**checkpoint) for checkpoint in found["checkpoints"]]
    return CallSettings(**{**found, "loggers": loggers, "checkpoints": checkpoints})


def collect_start(noted: dict[str, Any], tests: dict[str, Any] | None = None) -> bytes:
    """Write what the job needs before its script begins: the random states at the caller's import of us, pytest's run."""
    return _packed({**random_state.start(noted), "pytest": tests})


def unpack_start(source: Path | IO[bytes]) -> dict[str, Any]:
    """Read what ``collect_start`` wrote."""
    return _unpacked(source)


def _packed(value: dict[str, Any]) -> bytes:
    encoder = codec.Encoder()
    root = encoder.encode(value)
    written = io.BytesIO()
    bodies.save({"nodes": encoder.nodes, "root": root}, written)
    return written.getvalue()


def _unpacked(source: Path | IO[bytes]) -> dict[str, Any]:
    body = bodies.load(source)
    return cast(dict[str, Any], codec.Decoder(body["nodes"]).decode(body["root"]))
