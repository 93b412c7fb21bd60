"""What GPULAYER_* variables mean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpulayer import settings
from gpulayer.errors import BadRequest


def test_the_home_is_absolute_and_has_a_default() -> None:
    assert settings.read({"GPULAYER_HOME": "~/x"}).home == Path.home() / "x"
    assert settings.read({"GPULAYER_HOME": "x"}).home == Path.cwd() / "x"
    assert settings.read({}).home == Path.home() / ".gpulayer"


def test_an_empty_url_or_token_is_none() -> None:
    found = settings.read({"GPULAYER_URL": "", "GPULAYER_TOKEN": ""})
    assert (found.url, found.token) == (None, None)


def test_a_token_and_authorities_may_be_in_files() -> None:
    found = settings.read({"GPULAYER_TOKEN_FILE": "t", "GPULAYER_CA_CERT": "~/ca.pem", "GPULAYER_INSECURE": "1"})
    assert (found.token_file, found.ca_cert, found.insecure) == (Path.cwd() / "t", Path.home() / "ca.pem", True)
    assert not settings.read({"GPULAYER_INSECURE": "0"}).insecure


def test_what_a_command_line_says_goes_before_the_environment_and_leaves_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULAYER_URL", "https://there")
    monkeypatch.setenv("GPULAYER_TOKEN", "of there")
    with settings.saying(url="https://here", token_file=Path("t")):
        found = settings.read()
        assert (found.url, found.token, found.token_file) == ("https://here", None, Path.cwd() / "t")
        assert os.environ["GPULAYER_URL"] == "https://there"
    assert (settings.read().url, settings.read().token) == ("https://there", "of there")


@pytest.mark.parametrize("url", ["192.0.2.2:8470", "plane.lab:8470", "ftp://plane.lab", "https:/plane.lab"])
def test_a_url_without_its_scheme_is_refused_by_the_name_that_said_it(url: str) -> None:
    with pytest.raises(BadRequest, match=r"GPULAYER_URL is .* must begin with https://"):
        settings.read({"GPULAYER_URL": url})
    with settings.saying(url=url), pytest.raises(BadRequest, match="--url is"):
        settings.read()
    assert settings.read({"GPULAYER_URL": "HTTPS://plane.lab"}).url == "HTTPS://plane.lab"
