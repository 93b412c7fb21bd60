"""What of a call comes home now, and how ``gpulayer.fetch`` brings the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpulayer.artifacts import landing
from gpulayer.client import choice
from gpulayer.client.choice import Choice
from gpulayer.client.options import Fetch, JobOptions
from gpulayer.errors import ArtifactNotFound, CallRefused, NotFound
from gpulayer.plane import Plane
from gpulayer.spec.files import Artifact, Blob
from gpulayer.strategies import outcome, parts, stale
from gpulayer.strategies.checkpoints import map_text
from gpulayer.strategies.outcome.bodies import MODULE

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@dataclass
class Left:
    """What calls of one Trainer left with a job: ``bring_files`` returns the paths of checkpoints that came, by URL."""

    bring_files: Callable[[], Mapping[str, str]]
    models: list[Any] = field(default_factory=list)


class Fetching:
    """What is fetched of one call: its outcome, read once, and the choice among the job's files."""

    def __init__(self, plane: Plane, job_id: str, options: JobOptions, body: Blob | None, model: Any) -> None:
        self.body = body
        self._plane = plane
        self._job_id = job_id
        self._fetch: Fetch = options.fetch
        self._limit = options.fetch_limit
        self._size, self._over = 0, False
        self._model = model
        self._outcome: dict[str, Any] | None = None

    def choose(self, changed: Iterable[Artifact], place: Callable[[str], Path]) -> Choice | None:
        """Choose among files that are new or changed."""
        self._size = sum(each.blob.size for each in changed) + (0 if self.body is None else self.body.size)
        self._over = self._fetch == "all" and self._size > self._limit
        self._fetch = "best" if self._over else self._fetch
        if self._fetch == "all":
            return None
        named = self.outcome().get("kept", {}).get(self._fetch, []) if self.body is not None else []
        return choice.choose(self._fetch, self._plane.checkpoints(self._job_id), named, place)

    @property
    def words(self) -> str | None:
        """Say that not all was fetched, for its size."""
        if not self._over:
            return None
        return (
            f"outputs are {in_units(self._size)}, over fetch_limit ({in_units(self._limit)}): fetched only the best checkpoint;"
            " gpulayer.fetch(trainer) brings the rest."
        )

    def outcome(self) -> dict[str, Any]:
        """Return what the call left, without the module's part where that stays."""
        if self._outcome is None:
            assert self.body is not None
            self._outcome = self._without_module() if self._fetch == "metrics" else whole(self._plane, self.body)
        return self._outcome

    def _without_module(self) -> dict[str, Any]:
        assert self.body is not None
        with self._plane.open_blob(self.body.sha256) as opened:
            found = outcome.load(opened, module=False)
            if found.get("heavy") or stale.is_stale(self._model):
                return found
            return outcome.load(opened)  # no weights in it


def whole(plane: Plane, body: Blob) -> dict[str, Any]:
    """Fetch and read an outcome with all its parts."""
    with TemporaryDirectory(prefix="gpulayer-") as folder:
        target = landing.below(Path(folder), body.sha256)
        plane.fetch_blob(body.sha256, target)
        return outcome.load(target)


def module_part(plane: Plane, body: Blob) -> dict[str, Any]:
    """Read the part of an outcome that stayed."""
    part: dict[str, Any] = whole(plane, body)[MODULE]
    return part


def fetch(trainer: Any) -> None:
    """Bring home what the calls of a Trainer left with their jobs."""
    strategy = trainer.strategy
    if not hasattr(strategy, "gpulayer_wish"):
        raise CallRefused(f"{type(trainer).__name__} is not one of GPUlayer.", next_step='Make it with accelerator="gpulayer".')
    if strategy.left is None:
        raise CallRefused(
            "No call of this Trainer has come home: there is nothing to fetch.",
            next_step="Call it after fit, validate, test, predict or gpulayer.attach.",
        )
    gone = [job_id for job_id, left in list(strategy.left.items()) if not _bring(trainer, job_id, left)]
    if gone:
        raise ArtifactNotFound(
            f"What stayed with {' and '.join(gone)} is not there any more.",
            next_step="It is made anew by running the call again, with a module made anew.",
            job_id=gone[0],
        )


def _bring(trainer: Any, job_id: str, left: Left) -> bool:
    """Bring home what stayed with one job; False where it is gone."""
    strategy = trainer.strategy
    try:
        came = left.bring_files()
        rename(trainer, came)
        strategy.spelled = {path: name for path, name in strategy.spelled.items() if name not in came}
        for model in left.models:
            stale.fill(model)
    except NotFound:
        return False
    del strategy.left[job_id]
    return True


def rename(trainer: Any, came: Mapping[str, str]) -> None:
    """Have checkpoint callbacks name files that are here now by their paths; ``came`` has the paths by URL."""

    def text(value: str) -> str:
        return came.get(value, value)

    for callback in trainer.checkpoint_callbacks:
        for name, value in list(vars(callback).items()):
            if isinstance(value, dict | list):
                _refill(value, map_text(value, text))
            else:
                vars(callback)[name] = map_text(value, text)
    if isinstance(trainer.ckpt_path, str) and trainer.ckpt_path in came:
        parts.show_checkpoint(trainer, came[trainer.ckpt_path])


def _refill(container: Any, contents: Any) -> None:
    if container != contents:
        container.clear()
        container.update(contents) if isinstance(container, dict) else container.extend(contents)


def in_units(size: float) -> str:
    """Write a number of bytes for a person."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.2g} {name}" if size < 10 * unit else f"{size / unit:.0f} {name}"
    return f"{size:.0f} bytes"
