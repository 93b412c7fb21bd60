"""One ``predict`` in the job: its loaders are dealt out, and all ranks get the predictions of all."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from gpulayer.strategies import parts
from gpulayer.strategies.predictions.batches import digest_of
from gpulayer.strategies.predictions.dealing import Dealt, length_of
from gpulayer.strategies.predictions.weaving import LoaderShare, weave

_ALL = 1.0


@dataclass
class _Loader:
    """A loader of this call on this rank, as Lightning walks through it."""

    share: LoaderShare
    prepared: Any
    dealt: Dealt | None = None


@dataclass
class _Mine:
    """What this rank sends to the others: its shares, or why it can't."""

    replica: int
    shares: bytes = b""
    trouble: str = ""


class Predicting:
    """Runs a call of ``predict``; ``notes`` are sentences for the user about loaders that could not be woven."""

    def __init__(self, trainer: Any, namespace: str) -> None:
        self._trainer = trainer
        self._loop = trainer.predict_loop
        self._parts = parts.predicting(namespace)
        self._loaders: list[_Loader] = []
        self._limit: Any = _ALL
        self.notes: list[str] = []

    def run(self, run: Callable[[], Any]) -> Any:
        """Run the call, and return what one device would have."""
        if self._trainer.world_size == 1:
            return run()
        with self._in_place_of({parts.SET_UP_DATA: self._set_up_data, parts.PREDICT_STEP: self._step}, self._loop):
            returned = run()
        return returned if returned is None else self._whole()

    # --- before: dealing out ---------------------------------------------------------------------------------------

    def _set_up_data(self) -> None:
        trainer, loop = self._trainer, self._loop
        self._loaders.clear()
        self._limit = trainer.limit_predict_batches
        if self._limit == 0:
            type(loop).setup_data(loop)
            return
        trainer.limit_predict_batches = _ALL
        try:
            with self._in_place_of({parts.PREPARE_DATALOADER: self._prepare}, parts.data_connector(trainer)):
                type(loop).setup_data(loop)
        finally:
            trainer.limit_predict_batches = self._limit
        for at, loader in enumerate(self._loaders):
            if loader.dealt is None:
                loop.max_batches[at] = self._parts.parse_num_batches(trainer.state.stage, loop.max_batches[at], self._limit)

    def _prepare(self, dataloader: Any, shuffle: bool, mode: Any = None) -> Any:
        name = f"dataloader {len(self._loaders)} ({_described(dataloader)})"
        own = _own_sampler(dataloader)
        if own is not None:
            prepared = self._parts.update_dataloader(dataloader, own, mode=mode)
            loader = _Loader(LoaderShare("own", name), prepared)
        elif isinstance(dataloader, DataLoader) and parts.would_deal_samples(self._trainer, dataloader):
            loader = self._dealt(dataloader, name, mode)
        else:
            prepared = parts.prepare_dataloader(self._trainer, dataloader, shuffle, mode)
            loader = _Loader(LoaderShare("other", name), prepared)
        self._loaders.append(loader)
        return loader.prepared

    def _dealt(self, dataloader: Any, name: str, mode: Any) -> _Loader:
        """Make the loader of one device, as Lightning does there, and deal its batches out."""
        batched = dataloader.batch_sampler is not None
        if batched:
            prepared = self._parts.update_dataloader(dataloader, dataloader.sampler, mode=mode)
            order = parts.order_of(prepared)
        else:
            order = dataloader.sampler
        limit = self._parts.parse_num_batches(mode, length_of(order), self._limit)
        place = self._trainer.distributed_sampler_kwargs
        even = parts.computes_together(self._trainer.strategy)
        dealt = Dealt(order, place["rank"], place["num_replicas"], limit=limit, seed=self._seed(), even=even)
        if batched:
            parts.put_order(prepared, dealt)
        else:
            prepared = self._parts.update_dataloader(dataloader, dealt, mode=mode)
        return _Loader(LoaderShare("dealt", name), prepared, dealt)

    def _seed(self) -> int:
        """Agree on a seed, without drawing a random number."""
        state = torch.random.get_rng_state().numpy().tobytes() + bytes([len(self._loaders) % 256])
        return int(self._trainer.strategy.broadcast(int.from_bytes(hashlib.sha256(state).digest()[:4], "big")))

    # --- meanwhile -------------------------------------------------------------------------------------------------

    def _step(self, batch: Any, batch_idx: int, dataloader_idx: int, dataloader_iter: Any) -> None:
        loader = self._loaders[dataloader_idx]
        if dataloader_iter is None and loader.dealt is not None and loader.dealt.extra_at == batch_idx:
            # The others' last step needs this rank as well: it takes part with a batch that is another rank's.
            parts.predict_unheard(self._trainer, batch, batch_idx, dataloader_idx)
            return
        if dataloader_iter is None and loader.share.kind == "other":
            loader.share.digests.append(digest_of(batch))
        parts.predict_step(self._loop, batch, batch_idx, dataloader_idx, dataloader_iter)

    # --- after: gathering ------------------------------------------------------------------------------------------

    def _whole(self) -> Any:
        predictions = parts.predictions(self._loop)
        for loader, made in zip(self._loaders, predictions, strict=True):
            self._complete(loader, made)
        everyone: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everyone, self._mine())
        trouble = next((each.trouble for each in everyone if each.trouble), "")
        if trouble:
            self.notes.append(f"the predictions of rank 0 alone were brought back, as others can't be sent: {trouble}")
            woven = predictions
        else:
            woven = self._woven(everyone)
        return woven[0] if len(woven) == 1 else woven

    def _complete(self, loader: _Loader, made: list[Any]) -> None:
        share = loader.share
        if loader.dealt is not None:
            share.marks = loader.dealt.marks
            made = made[: loader.dealt.extra_at]
        if share.kind == "own":
            seen = getattr(loader.prepared.batch_sampler, "seen_batch_indices", ())
            share.indices = [list(batch) for batch in seen[: len(made)]]
        share.predictions = made

    def _mine(self) -> _Mine:
        mine = _Mine(self._trainer.distributed_sampler_kwargs["rank"])
        try:
            mine.shares = pickle.dumps([loader.share for loader in self._loaders])
        except Exception as failed:  # whatever the user's objects say to being pickled
            mine.trouble = f"{type(failed).__name__}: {failed}"
        return mine

    def _woven(self, everyone: list[_Mine]) -> list[Any]:
        by_replica: dict[int, list[LoaderShare]] = {}
        for each in everyone:
            by_replica.setdefault(each.replica, pickle.loads(each.shares))
        found = []
        for shares in zip(*(by_replica[replica] for replica in sorted(by_replica)), strict=True):
            whole, note = weave(shares)
            found.append(whole)
            if note:
                self.notes.append(note)
        return found

    @contextmanager
    def _in_place_of(self, methods: dict[str, Callable[..., Any]], holder: Any) -> Iterator[None]:
        """Have an object answer by other methods than its class's."""
        for name, method in methods.items():
            setattr(holder, name, method)
        try:
            yield
        finally:
            for name in methods:
                delattr(holder, name)


def _own_sampler(dataloader: Any) -> Any:
    """Return the sampler by which a user deals out samples, or None."""
    if not isinstance(dataloader, DataLoader):
        return None
    samplers = (dataloader.sampler, getattr(dataloader.batch_sampler, "sampler", None))
    return next((sampler for sampler in samplers if isinstance(sampler, DistributedSampler)), None)


def _described(dataloader: Any) -> str:
    dataset = getattr(dataloader, "dataset", None)
    of = "" if dataset is None else f" of {type(dataset).__name__}"
    return f"{type(dataloader).__name__}{of}"
