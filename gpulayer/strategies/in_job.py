"""The half of the Trainer that lives in the job: plain Lightning, whose calls wait for the caller's word."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import weakref
from collections.abc import Callable
from typing import Any, cast

import torch

from gpulayer.errors import CallRefused
from gpulayer.runtime.context import Context
from gpulayer.runtime.report import RankLink
from gpulayer.spec.calls import FunctionName
from gpulayer.spec.rank_messages import Begin
from gpulayer.strategies import (
    adoption,
    call_settings,
    checkpoints,
    digest,
    fingerprint,
    names,
    outcome,
    parts,
    random_state,
    rank_tests,
    sharded,
    termination,
)
from gpulayer.strategies.checkpoints import Announcer
from gpulayer.strategies.computing import Computation
from gpulayer.strategies.outcome import Scene
from gpulayer.strategies.outcome.optimizers import restore_optimizers
from gpulayer.strategies.predictions import Predicting
from gpulayer.strategies.walk import Ahead, Walk


class _Here:
    """What ``install`` put into this process."""

    walk: Walk | None = None
    announcer: Announcer | None = None
    start: dict[str, Any] | None = None
    answered: Any = None
    left: Callable[[], Any] | None = None


def install(link: RankLink, context: Context) -> None:
    """Make this process a rank whose Trainers meet the caller's; called before the script begins."""
    _Here.walk = Walk(link, context)
    _Here.announcer = Announcer(link, context.rank, str(context.work))
    _Here.start = _start_settings(context)
    if _Here.start is not None:
        random_state.take_torch_seed(_Here.start)
        if _Here.start.get("pytest") is not None:
            _Here.walk.paths = rank_tests.install(_Here.start["pytest"], context, _Here.walk.paths)


def _start_settings(context: Context) -> dict[str, Any] | None:
    calls = context.calls
    if calls is None or calls.settings is None:
        return None
    path = context.task / "bodies" / calls.settings
    return call_settings.unpack_start(path) if path.exists() else None


def take_random_start() -> None:
    """Take over Python's and numpy's random states of the caller's ``import gpulayer``, at the same line of the script."""
    if _Here.start is not None:
        random_state.take({name: _Here.start[name] for name in ("python", "numpy") if name in _Here.start})


def connect(connector: Any, original: Callable[..., None], arguments: dict[str, Any], ordinal: int) -> None:
    """Stand in for ``_AcceleratorConnector.__init__`` in the job: the user's choices on the devices that are here."""
    walk, announcer = _Here.walk, _Here.announcer
    given = dict(arguments)
    if hasattr(given["strategy"], "gpulayer_wish"):
        given["strategy"] = given["strategy"].inner
    if given["accelerator"] == names.ACCELERATOR:
        given["accelerator"] = "cuda" if torch.cuda.is_available() else "cpu"
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    # A mismatch with what torchrun started would train several independent models, without an error.
    given["devices"], given["num_nodes"] = local, int(os.environ.get("WORLD_SIZE", "1")) // local
    original(connector, **given)
    if walk is None or announcer is None:
        return
    namespace = namespace_of(connector)
    strategy = connector.strategy
    launcher = _launcher_class(namespace)(walk, ordinal, namespace, strategy)
    strategy._launcher = launcher
    checkpoints.wrap(strategy, launcher.trainer, announcer, lambda: walk.paths)
    adoption.count_callers_files(parts.model_checkpoint(namespace))


def in_call() -> bool:
    """Say whether a call computes in this process: Trainers made meanwhile are part of it, and not numbered."""
    return _Here.walk is not None and _Here.walk.computing


def answered() -> Any:
    """Answer the call that was left, or return what the last call returned that was answered from its record."""
    left, _Here.left = _Here.left, None
    return _Here.answered if left is None else left()


def namespace_of(connector: Any) -> str:
    """Return which copy of Lightning an object belongs to."""
    for base in type(connector).__mro__:
        for namespace in names.NAMESPACES:
            if base.__module__.startswith(f"{namespace}."):
                return namespace
    raise CallRefused(f"{type(connector).__name__} is not of a Lightning that GPUlayer knows.")


class InJobLauncher:
    """Where all four calls of a Trainer pass in the job; ``inner`` is the launcher that the strategy chose for itself."""

    is_interactive_compatible = True

    def __init__(self, walk: Walk, ordinal: int, namespace: str, strategy: Any) -> None:
        self._walk = walk
        self._ordinal = ordinal
        self._namespace = namespace
        self._strategy = strategy
        self._inner = strategy._launcher
        self._trainer: Callable[[], Any] = lambda: None

    def trainer(self) -> Any:
        """Return the Trainer that made the last call."""
        return self._trainer()

    def kill(self, signum: Any) -> None:
        """Lightning passes signals on to processes it started; there are none."""

    def launch(self, function: Callable[..., Any], *args: Any, trainer: Any = None, **kwargs: Any) -> Any:
        self._trainer = weakref.ref(trainer)
        if self._walk.inside:
            return self._run(function, trainer, args, kwargs)
        ahead = self._walk.go()
        with self._walk.call() as number:
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            scene = self._scene(trainer, bound.arguments)
            if number < ahead.go.call:
                return self._answer(ahead, number, scene)
            asked = bound.arguments.get("ckpt_path")
            bound.arguments["ckpt_path"] = adoption.checkpoint_path(asked, ahead.settings, self._walk.paths, ahead.checkpoint)
            adoption.adopt(trainer, ahead.settings, self._walk.paths)
            adoption.hide_bars(trainer)
            termination.agree_between_batches(trainer, self._namespace)
            name = cast(FunctionName, names.FUNCTIONS[function.__name__])
            begin = self._meet(number, name, trainer, scene.model, asked)
            run = functools.partial(self._run_showing, adoption.shown_path(asked, ahead.settings), function, trainer, bound)
            gone = [] if _Here.announcer is None else _Here.announcer.gone
            notes: list[str] = []
            if name == "predict":
                predicting = Predicting(trainer, self._namespace)
                run, notes = functools.partial(predicting.run, run), predicting.notes
            return Computation(self._walk, number, name, scene, self._namespace, run, gone, notes).compute(begin.state)

    def _meet(self, number: int, function: FunctionName, trainer: Any, model: Any, ckpt_path: Any) -> Begin:
        """Arrive at a call; rank 0 says which tensors it brings."""
        with sharded.shown(model):
            taken = fingerprint.take(
                call=number,
                function=function,
                ordinal=self._ordinal,
                trainer=trainer,
                model=model,
                ckpt_path=fingerprint.relative(ckpt_path, self._walk.paths.root, self._caller_path),
            )
        says = self._walk.context.rank == 0 and model is not None
        known = sharded.known_digest(model) if says and sharded.is_sharded(model) else ""
        return self._walk.begin(taken, (known or digest.of_state(model)) if says else "")

    def _run_showing(self, path: Any, function: Callable[..., Any], trainer: Any, bound: inspect.BoundArguments) -> Any:
        """Run a call; after it, ``trainer.ckpt_path`` names what was loaded as a local run would."""
        try:
            return self._run(function, trainer, bound.args, bound.kwargs)
        finally:
            if path is not None:
                parts.show_checkpoint(trainer, path)

    def _run(self, function: Callable[..., Any], trainer: Any, args: Any, kwargs: Any) -> Any:
        if self._inner is None:
            return function(*args, **kwargs)
        return self._inner.launch(function, *args, trainer=trainer, **kwargs)

    def _caller_path(self, path: str) -> str:
        return self._walk.paths.to_caller(os.path.abspath(path))

    def _scene(self, trainer: Any, arguments: dict[str, Any]) -> Scene:
        model = arguments.get("model")
        datamodule = arguments.get("datamodule")
        loaders = arguments.get("train_dataloaders", arguments.get("dataloaders"))
        if datamodule is None and isinstance(loaders, names.of(self._namespace).LightningDataModule):
            datamodule = loaders
        return Scene(
            trainer,
            model if model is not None else trainer.lightning_module,
            datamodule,
            dict(arguments),
            outcome.users_modules((self._walk.paths.work, os.path.realpath(self._walk.paths.work))),
        )

    def _answer(self, ahead: Ahead, number: int, scene: Scene) -> Any:
        """Answer a call that an earlier job computed: by what it left, or by raising what it raised.

        One that was left to itself has done nothing yet, and is answered where the script attaches to its job.
        """
        if ahead.answer(number)[0].left:
            _Here.left = functools.partial(self._answer_now, ahead, number, scene, lambda error: error)
            return None
        return self._answer_now(ahead, number, scene, lambda error: self._told(error, scene.trainer))

    def _answer_now(self, ahead: Ahead, number: int, scene: Scene, told: Callable[[BaseException], BaseException]) -> Any:
        record, body, error_body = ahead.answer(number)
        returned = None
        if body is not None:
            applied = outcome.apply(outcome.load(body), scene, self._walk.paths.job_text)
            returned = applied.returned
            with names.data_seen(scene.trainer), contextlib.suppress(Exception):  # what the user's own code may raise
                restore_optimizers(scene.trainer, applied.extra, names.of(self._namespace).init_optimizers)
        if number == ahead.go.call - 1 and body is not None:
            self._walk.leave_call(ahead)
        tests = rank_tests.known()
        if tests is not None:
            tests.take_earlier()
        _Here.answered = returned
        if record.error is None:
            return returned
        error = outcome.rebuild_error(record.error, error_body, self._walk.paths.job_text)
        raise told(error)

    def _told(self, error: BaseException, trainer: Any) -> BaseException:
        """Have an error pass without hooks through the Trainer: they ran when it happened."""
        hidden = names.hide_hooks(trainer)
        strategy, teardown = self._strategy, self._strategy.teardown

        def show_again() -> None:
            strategy.teardown = teardown
            names.show_hooks(trainer, hidden)

        strategy.teardown = show_again
        return error


@functools.cache
def _launcher_class(namespace: str) -> type[InJobLauncher]:
    return type("InJobLauncher", (InJobLauncher, names.of(namespace).Launcher), {})
