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


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration file of a person with two profiles."""
    file = tmp_path / "config" / "gpulayer" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        """
        profile = "lab"
        [profiles.lab]
        url = "https://lab"
        token_file = "lab.token"
        [profiles.disk]
        home = "/data/gpulayer"
        insecure = true
        """
    )
    return file


def read(**environ: str) -> settings.Settings:
    return settings.read({"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"], **environ})


def test_the_file_names_the_profile_that_says_what_variables_do_not(config: Path) -> None:
    found = read()

    assert (found.profile, found.url, found.token_file) == ("lab", "https://lab", config.parent / "lab.token")
    assert read(GPULAYER_HOME="/h", GPULAYER_TOKEN_FILE="/t").token_file == Path("/t")


def test_a_variable_or_the_command_line_chooses_another_profile(config: Path) -> None:
    found = read(GPULAYER_PROFILE="disk")
    assert (found.profile, found.url, found.home, found.insecure) == ("disk", None, Path("/data/gpulayer"), True)
    assert not read(GPULAYER_PROFILE="disk", GPULAYER_INSECURE="0").insecure

    with settings.saying(profile="disk"):
        assert settings.read().profile == "disk"


def test_the_token_of_a_profile_is_for_its_own_url(config: Path) -> None:
    assert read(GPULAYER_URL="https://other").token_file is None
    with settings.saying(url="https://other"):
        assert settings.read().token_file is None


def test_without_a_configuration_file_there_is_no_profile() -> None:
    assert read().profile == ""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('profile = "x"', "There is no profile 'x' in .*config.toml; it has none"),
        ('profile = "x"\n[profiles.x]\ntoken = "glt_1"', "says 'token'; a profile may say home, url, token_file"),
        ('profile = "x"\n[profiles.x]\ninsecure = "no"', "says insecure = 'no', which is no bool"),
        ('profile = "x"\n[profiles.x]\nurl = "lab"', "The url of profile x is 'lab'"),
        ("profile =", "config.toml can't be read"),
    ],
)
def test_what_is_wrong_in_the_configuration_file_is_named(config: Path, text: str, sentence: str) -> None:
    config.write_text(text)

    with pytest.raises(BadRequest, match=sentence):
        read()
