"""What GPULAYER_* variables mean."""

from __future__ import annotations

from pathlib import Path

from gpulayer import settings


def test_the_home_is_absolute_and_has_a_default() -> None:
    assert settings.read({"GPULAYER_HOME": "~/x"}).home == Path.home() / "x"
    assert settings.read({"GPULAYER_HOME": "x"}).home == Path.cwd() / "x"
    assert settings.read({}).home == Path.home() / ".gpulayer"


def test_an_empty_url_or_token_is_none() -> None:
    found = settings.read({"GPULAYER_URL": "", "GPULAYER_TOKEN": ""})
    assert (found.url, found.token) == (None, None)
