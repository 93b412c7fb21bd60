"""What a rank's pytest does otherwise than the caller's: it runs the caller's tests in their order, and leaves no reports.

(PYTEST_DONT_REWRITE)
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from gpulayer.runtime import main
from gpulayer.strategies import rank_tests

_LOCAL: dict[str, Any] = {"capture": "no"}
"""What a rank prints goes to its job's log, at once."""
_THE_CALLERS: dict[str, Any] = {
    **dict.fromkeys(("lf", "failedfirst", "newfirst", "stepwise", "cacheclear", "json_report", "usepdb", "trace"), False),
    **dict.fromkeys(("xmlpath", "htmlpath", "report_log", "pastebin"), None),
    "log_file": os.devnull,
    "maxfail": 0,
    "cov_source": [],
    "no_cov": True,
}
"""Which tests run, which of them ends the run, who sits before it and what is written about it."""
_BY_THE_CLOCK = ("timeout",)
"""Plugins that end tests after a while: a rank waits in its tests for what the caller does in others."""


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_load_initial_conftests(early_config: Any) -> Generator[None, None, None]:
    _set(early_config.known_args_namespace)
    yield


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    _set(config.option)
    known = rank_tests.known()
    if known is not None:
        config.option.basetemp = str(known.own)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: Any) -> None:
    config = session.config
    for name in _BY_THE_CLOCK:
        if config.pluginmanager.has_plugin(name):
            config.pluginmanager.unregister(name=name)
    capturing = config.pluginmanager.getplugin("capturemanager")
    rank_tests.configure(capturing.global_and_fixture_disabled)


def _set(options: Any) -> None:
    for name, value in {**_LOCAL, **_THE_CALLERS}.items():
        if hasattr(options, name):
            setattr(options, name, value)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    known = rank_tests.known()
    if known is not None and known.tests is not None:
        order = {name: at for at, name in enumerate(known.tests)}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:  # the summary, which would tell it, may never come
        print(report.longreprtext, flush=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    """Leave before anything is written about the run."""
    main.leave(int(exitstatus))
