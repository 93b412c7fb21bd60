"""What every test gets: a home of its own, the promise that nothing is left running, and no silent skips in CI."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.left_running import wait_until_none_is_left
from tests.postgres import postgres as postgres
from tests.postgres import postgres_url as postgres_url

GPU = "tests/gpu/"


def pytest_configure() -> None:
    """Take Ctrl-C as in a terminal: a suite that a shell began in the background would hand on that it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh GPULAYER_HOME; the test fails if a process that belongs to it outlives the test."""
    home = tmp_path / "home"
    monkeypatch.setenv("GPULAYER_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("GPULAYER_URL", "GPULAYER_TOKEN", "GPULAYER_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    yield home
    if home.exists():
        left = wait_until_none_is_left(home)
        assert not left, f"left running after the test: {left}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    _fail_if_skipped(outcome.get_result(), gpu=item.get_closest_marker("gpu") is not None)  # type: ignore[attr-defined]


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    outcome = yield
    _fail_if_skipped(outcome.get_result(), gpu=GPU in collector.nodeid)  # type: ignore[attr-defined]


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport, *, gpu: bool) -> None:
    """In CI every part that a test needs is there, so a skip hides a mistake."""
    if not os.environ.get("CI") or gpu or not report.skipped or hasattr(report, "wasxfail"):
        return
    report.outcome = "failed"
    report.longrepr = f"skipped in CI: {report.longrepr}"
