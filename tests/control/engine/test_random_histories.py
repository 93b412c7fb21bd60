"""The engine through random histories, in memory."""

from __future__ import annotations

from hypothesis import settings

from tests.control.engine.histories import Histories

Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase
