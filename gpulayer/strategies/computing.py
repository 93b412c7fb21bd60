"""One call of a rank: it computes, records what it left, and never lets a failure out into the script."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gpulayer.runtime import faults
from gpulayer.spec.calls import FunctionName, OutcomeStatus
from gpulayer.strategies import (
    call_progress,
    checkpoints,
    digest,
    folders,
    outcome,
    parts,
    random_state,
    rank_tests,
    sharded,
    termination,
)
from gpulayer.strategies.outcome import Observation, Scene
from gpulayer.strategies.outcome.errors import without_our_frames
from gpulayer.strategies.outcome.loaders import loaders_of
from gpulayer.strategies.outcome.optimizers import optimizers_of
from gpulayer.strategies.walk import Walk, marked

_TERMINATED = 128 + 15


@dataclass(frozen=True)
class Computation:
    """A call that may begin. ``run`` is Lightning's own function with its arguments.

    ``gone`` is what it removes, ``notes`` what the user should know of it; both fill while it runs.
    """

    walk: Walk
    number: int
    function: FunctionName
    scene: Scene
    namespace: str
    run: Callable[[], Any]
    gone: list[str]
    notes: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.time)

    @functools.cached_property
    def wish(self) -> termination.Wish:
        return termination.Wish(self.namespace, self.walk.link.is_interrupted)

    def compute(self, state: str | None) -> Any:
        """Run the call and record it; returns to the script only from a call that went well and that another one follows."""
        self.gone.clear()  # what is removed between calls, the caller's own script removes
        if state is not None:
            self._become_the_caller(Path(state))
        with sharded.shown(self.scene.model):
            observation = Observation(self.scene.roots(), self.scene.users)
        tests = rank_tests.known()
        with self.wish.heard():
            returned, failed = self._run()
            if tests is not None:
                tests.give(self.began)
            if failed is not None:
                self._record_failure(failed, observation)
                self.walk.leave(1)
            body = self._body(observation, returned, collectives=True)
            self.walk.link.record(self.number, "ok", began=self.began, body=body)
        if self.wish.asked:  # too late for this call, but no other one is wanted
            self.walk.leave(_TERMINATED)
        recorded = time.time()
        self.walk.hold()
        if tests is not None:
            tests.take(max(recorded, self.walk.go().came))
        return returned

    def _become_the_caller(self, state: Path) -> None:
        model, tensors = self.scene.model, torch.load(state, map_location="cpu", weights_only=True)
        if sharded.is_sharded(model):
            sharded.load(parts.outer_model(self.scene.trainer, model), model, tensors)
        else:
            digest.load_state(model, tensors)

    def _run(self) -> tuple[Any, BaseException | None]:
        with rank_tests.uncaptured(), marked(self.number), self._reporting():
            try:
                with self.wish.breakable():
                    return self.run(), None
            except BaseException as error:
                if self._ended_by_tuner(error):
                    return None, None
                return None, self._interrupt(self.wish.meant_by(error))

    def _reporting(self) -> contextlib.AbstractContextManager[None]:
        if self.walk.context.rank != 0:
            return contextlib.nullcontext()
        return call_progress.reporting(self.number, self.scene.trainer, self.walk.link.progress)

    def _ended_by_tuner(self, error: BaseException) -> bool:
        """A tuner ends a fit by an exception of its own; then Lightning cleans up as after any other end."""
        endings = parts.endings(self.namespace)
        if not isinstance(error, endings.tuner_exit):
            return False
        trainer = self.scene.trainer
        endings.teardown_hooks(trainer)
        parts.tear_down(trainer)
        trainer.state.status = endings.finished
        trainer.state.stage = None
        return True

    def _interrupt(self, error: BaseException) -> BaseException:
        """Do what Lightning does about an exception: hooks first, then its teardown. Returns what it would have raised."""
        trainer = self.scene.trainer
        if self.wish.alone:
            self.wish.leave_peers()
        try:
            with self._not_for_ever(error):
                parts.endings(self.namespace).interrupt(trainer, error)
                parts.tear_down(trainer)
        except BaseException as second:
            # A hook that fails because the peers are gone tells nothing.
            if not faults.tells_of_a_peer(second):
                error = second
        if not isinstance(error, KeyboardInterrupt):
            trainer.state.stage = None
        return error

    @contextlib.contextmanager
    def _not_for_ever(self, error: BaseException) -> Iterator[None]:
        """Leave with the error alone when hooks hang: one that waits for the other ranks may wait in vain."""
        calls = self.walk.context.calls
        assert calls is not None
        timer = threading.Timer(calls.straggler_grace_s, self._give_up, (error,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _give_up(self, error: BaseException) -> None:
        self._record_error(error, None)
        os._exit(1)

    def _record_failure(self, error: BaseException, observation: Observation) -> None:
        body = None
        with contextlib.suppress(Exception):  # the error matters more than what the call had done until then
            body = self._body(observation, None, collectives=False)
        self._record_error(error, body)

    def _record_error(self, error: BaseException, body: str | None) -> None:
        raised = faults.describe(error, without_our_frames(error.__traceback__))
        path = self._file("error")
        with contextlib.suppress(Exception):  # class and message travel by themselves
            outcome.record_error(error, path, self.walk.paths.caller_text)
            raised = raised.model_copy(update={"body": str(path)})
        status: OutcomeStatus = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        self.walk.link.record(self.number, status, began=self.began, body=body, error=raised)

    def _body(self, observation: Observation, returned: Any, collectives: bool) -> str | None:
        trainer, model = self.scene.trainer, self.scene.model
        whole = self._gather(collectives)
        states = optimizers_of(trainer, model, collectives) if self.function == "fit" else {}
        if collectives and self.walk.context.rank != 0:
            return None
        with sharded.shown(model, whole):
            body = outcome.collect(
                observation,
                self.walk.paths.caller_text,
                trainer=trainer,
                returned=returned,
                extra={**self._beside(), **self._files()},
                states=states,
                kept=checkpoints.named(trainer.checkpoint_callbacks),
            )
        if sharded.is_partitioned(model) or (whole is not None and not whole.tensors):
            body["lost"].append("the model's weights (each rank has a part of them)")
        path = self._file("outcome")
        outcome.save(body, path)
        return str(path)

    def _gather(self, collectives: bool) -> sharded.Whole | None:
        """Gather a sharded model, where all ranks are here to do it; without values otherwise."""
        model = self.scene.model
        if not sharded.is_sharded(model):
            return None
        nothing = sharded.Whole({})
        return (sharded.gather(parts.outer_model(self.scene.trainer, model), model) or nothing) if collectives else nothing

    def _beside(self) -> dict[str, Any]:
        loaders = {} if self.scene.model is None else loaders_of(self.scene.trainer)
        return {"random": random_state.now(), "notes": list(self.notes), "loaders": loaders}

    def _files(self) -> dict[str, list[str]]:
        """What of the call's files no manifest tells: which it removed, and its empty folders."""
        return {"gone": list(self.gone), "folders": folders.empty(self.walk.paths.work)}

    def _file(self, what: str) -> Path:
        folder = self.walk.context.task / "bodies"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{what}-{self.number}-{self.walk.context.rank}.pt"
