"""``@gpulayer.remote``: a function whose calls may run as jobs; JSON in, JSON out."""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

from gpulayer import settings
from gpulayer.client import requirements
from gpulayer.client.client import Client, shared
from gpulayer.client.handles import Job
from gpulayer.errors import InvalidFunctionValue, ScriptUnavailable
from gpulayer.spec.base import Spec
from gpulayer.spec.job import FunctionJob

P = ParamSpec("P")
R = TypeVar("R")
MOST_AT_ONCE = 64
"""How many calls of ``map`` a plane elsewhere is given at a time, unless it is told."""


class Mapped(NamedTuple):
    """What ``map`` brought: a value for each item, in their order (None where it failed), and the failures by position."""

    values: list[Any]
    errors: dict[int, Exception]


class Remote(Generic[P, R]):
    """A function that may be called as ever (``f(x)``, ``f.local(x)``), or as a job (``f.remote(x)``, ``f.map(xs)``)."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it here."""
        return self._function(*args, **kwargs)

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Call it as a job, and return that at once; its ``result()`` waits for what the function returns."""
        return self._submit(shared(), args, kwargs)

    def map(self, items: Iterable[Any], *, concurrency: int | None = None) -> Mapped:
        """Call it for each item, each as a job, at most ``concurrency`` at a time, and wait for all.

        One that fails keeps none of the others; a Ctrl-C cancels all. Without a ``concurrency`` it is one for each processor
        here, and 64 on a plane elsewhere. All items are judged before any travels.
        """
        client = shared()
        client.plane  # noqa: B018  # a job has none
        given = list(items)
        for item in given:
            self._check((item,), {})
        most = concurrency or ((os.cpu_count() or 1) if settings.read().url is None else MOST_AT_ONCE)
        done = Mapped([None] * len(given), {})

        begun: list[Job] = []

        def call(at: int) -> None:
            try:
                begun.append(job := self._submit(client, (given[at],), {}))
                done.values[at] = job.result()
            except Exception as error:
                done.errors[at] = error

        with ThreadPoolExecutor(max(1, min(most, len(given))), thread_name_prefix="gpulayer-map") as pool:
            calls = [pool.submit(call, at) for at in range(len(given))]
            try:
                for each in calls:
                    each.result()
            except BaseException:  # a Ctrl-C: what has not begun never does
                pool.shutdown(wait=False, cancel_futures=True)
                for job in begun:
                    job.cancel()
                raise
        return Mapped(done.values, dict(sorted(done.errors.items())))

    @property
    def _name(self) -> str:
        return getattr(self._function, "__qualname__", repr(self._function))

    def _submit(self, client: Client, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Job:
        self._check(args, kwargs)
        options = dict(self._options)
        source_dir = options.pop("source_dir", None)
        options["requirements"] = requirements.gather(options.get("requirements", ()), options.pop("requirements_file", None))
        job = FunctionJob(**_reference(self._function), args=args, kwargs=kwargs, **options)
        return client.submit(job, source_dir=source_dir)

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        _refuse_what_stays(self._function)
        try:
            given = inspect.signature(self._function).bind(*args, **kwargs).arguments
        except TypeError as cause:
            raise TypeError(f"{self._name}(): {cause}") from None
        for name, value in given.items():
            _refuse_no_json(self._name, name, value)


@overload
def remote(function: Callable[P, R], /) -> Remote[P, R]: ...
@overload
def remote(*, gpus: int = 0, target: str | None = None, **options: Any) -> Callable[[Callable[P, R]], Remote[P, R]]: ...
def remote(function: Any = None, /, *, gpus: int = 0, target: str | None = None, **options: Any) -> Any:
    """Make a function one that may run as a job: ``@gpulayer.remote`` or ``@gpulayer.remote(gpus=1, timeout_s=60)``.

    ``gpus`` are CUDA devices, ``target`` says where it runs, ``source_dir`` which folder travels instead of the project around
    the working directory or script, ``requirements_file`` which packages its Python has more; other options are fields of
    ``FunctionJob``. Calls take and return JSON values.
    """
    if gpus:
        options["resources"] = {"accelerator": "cuda", "gpu_count": gpus, **_plain(options.get("resources"))}
    if target is not None:
        options["placement"] = {**_plain(options.get("placement")), "target": target}
    if function is None:
        return lambda decorated: Remote(decorated, options)
    return Remote(function, options)


def _plain(given: Spec | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what was said, of a spec or of a dictionary of one."""
    return given.model_dump(exclude_unset=True) if isinstance(given, Spec) else dict(given or {})


# --- what can't travel ---------------------------------------------------------------------------------------------------


def _refuse_what_stays(function: Any) -> None:
    """Refuse a function that a job could not find by its name."""
    name = getattr(function, "__qualname__", repr(function))
    way_out = "Define it with def at the top of a module, and pass it what it needs."
    if not inspect.isfunction(function):
        raise InvalidFunctionValue(f"{name} is a {type(function).__name__}, and no function of a module.", next_step=way_out)
    if "<lambda>" in name:
        raise InvalidFunctionValue("A lambda has no name by which a job could find it.", next_step=way_out)
    if "<locals>" in name:
        held = ", ".join(function.__code__.co_freevars)
        what = f"is defined in another function, whose {held} it uses" if held else "is defined in another function"
        raise InvalidFunctionValue(f"{name} {what}: a job can't find it.", next_step=way_out, holds=held)
    if function.__module__ == "__main__" and not _script():
        raise ScriptUnavailable(
            f"{name} was typed into a prompt or a notebook: there is no file that a job could load.",
            next_step="Put it into a module, and import it from there.",
        )


def _reference(function: Any) -> dict[str, str]:
    """Name a function as a ``FunctionJob`` does."""
    name = f"{function.__module__}:{function.__qualname__}"
    return {"function": name, "script": _script()} if function.__module__ == "__main__" else {"function": name}


def _script() -> str:
    """Return the script that this process runs; empty when it runs none."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return os.path.abspath(file) if file and Path(file).is_file() else ""


def _refuse_no_json(function: str, name: str, value: Any) -> None:
    """Refuse a value that would not arrive as it is; a tuple arrives as a list."""
    found = _no_json(value, name)
    if found is not None:
        place, kind = found
        raise InvalidFunctionValue(
            f"{place} of {function} is a {kind}, which JSON can't hold.",
            next_step="Pass numbers, texts, lists and dictionaries; larger things as files, by inputs= or a URL.",
            argument=name,
        )


def _no_json(value: Any, place: str) -> tuple[str, str] | None:
    """Return where a value is no JSON, and what is there."""
    match value:
        case None | bool() | int() | str() if type(value) in (type(None), bool, int, str):
            return None
        case float() if type(value) is float and math.isfinite(value):
            return None
        case float() if type(value) is float:
            return place, f"float that is {value}"
        case list() | tuple() if type(value) in (list, tuple):
            found = (_no_json(each, f"{place}[{at}]") for at, each in enumerate(value))
            return next(filter(None, found), None)
        case dict() if type(value) is dict:
            for key, each in value.items():
                if type(key) is not str:
                    return f"A key of {place}", type(key).__name__
                if (inside := _no_json(each, f"{place}[{key!r}]")) is not None:
                    return inside
            return None
    return place, type(value).__name__
