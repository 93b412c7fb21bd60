"""The dataloaders of a finished call, which Lightning goes on showing: made again when someone first looks at them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from gpulayer.strategies import parts, random_state


def loaders_of(trainer: Any) -> dict[str, dict[str, Any]]:
    """Return which loops of a Trainer have dataloaders, how many batches of each count, and the epochs of their samplers."""
    combined = {name: parts.combined_loader(loop) for name, loop in parts.data_loops(trainer).items()}
    return {
        name: {"limits": each.limits, "epochs": [_epoch(loader) for loader in each.flattened]}
        for name, each in combined.items()
        if each is not None
    }


def _epoch(loader: Any) -> int | None:
    epoch = getattr(getattr(loader, "sampler", None), "epoch", None)
    return epoch if isinstance(epoch, int) else None


def owe(trainer: Any, described: dict[str, dict[str, Any]]) -> None:
    """Have the loops that had dataloaders in the job show some here: no code of the user's runs before they are wanted."""
    for name, loop in parts.data_loops(trainer).items():
        if name in described and parts.combined_loader(loop) is None:
            parts.put_combined_loader(loop, Owed(trainer, name, described[name]))


class Owed:
    """Stands for a loop's combined loader until a part of it is asked for."""

    def __init__(self, trainer: Any, name: str, described: dict[str, Any]) -> None:
        self._make = (trainer, name, described)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_make":  # what copying and looking around ask of any object
            raise AttributeError(name)
        return getattr(_made(*self._make), name)

    def __len__(self) -> int:
        return len(_made(*self._make))

    def __iter__(self) -> Iterator[Any]:
        return iter(_made(*self._make))


def _made(trainer: Any, name: str, described: dict[str, Any]) -> Any:
    loop = parts.data_loops(trainer)[name]
    if isinstance(parts.combined_loader(loop), Owed):
        # What Lightning warns of, it said in the call itself; what the user's code draws, it drew there.
        with warnings.catch_warnings(), random_state.kept():
            warnings.simplefilter("ignore")
            parts.set_up_loaders(trainer, name)
        combined = parts.combined_loader(loop)
        combined.limits = described["limits"]
        for loader, epoch in zip(combined.flattened, described["epochs"], strict=False):
            if epoch is not None and hasattr(loader.sampler, "set_epoch"):
                loader.sampler.set_epoch(epoch)
    return parts.combined_loader(loop)
