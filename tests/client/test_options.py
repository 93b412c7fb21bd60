"""What a person may say about a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulayer.client.options import JobOptions, options_from
from gpulayer.errors import InvalidCount, InvalidJob
from gpulayer.settings import Settings
from gpulayer.spec.resources import Placement, Resources


def test_dictionaries_are_taken_wherever_a_spec_is() -> None:
    said = options_from({"resources": {"accelerator": "cuda", "gpu_count": 1}, "target": "remote", "workers": ["a"]})
    assert said.resources == Resources(accelerator="cuda", gpu_count=1)
    assert said.placement("remote") == Placement(target="remote", workers=("a",))
    assert options_from(None) == JobOptions()
    assert options_from(said) is said


def test_an_unset_target_is_where_the_plane_is() -> None:
    assert JobOptions().on(Settings(home=Path("/h"))).target == "local"
    elsewhere = Settings(home=Path("/h"), url="https://plane")
    assert JobOptions().on(elsewhere).target == "remote"
    assert JobOptions(target="cloud").on(elsewhere).target == "cloud"


def test_an_unknown_option_is_answered_with_the_right_ones() -> None:
    with pytest.raises(InvalidJob, match=r"no 'timeout'\. It has: .*timeout_s"):
        options_from({"timeout": 3})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, r"job=3 is not possible: it may be JobOptions, or a dictionary"),
        ({"target": "mars"}, r"JobOptions\(target='mars'\) is not possible: it may be 'local', 'remote' or 'cloud'"),
        ({"fetch": "some"}, r"JobOptions\(fetch='some'\) is not possible: it may be 'all', 'best', 'last' or 'metrics'"),
        ({"fetch_limit": 0}, r"JobOptions\(fetch_limit=0\) is not possible: it may be greater than 0"),
        ({"grace_s": "soon"}, r"JobOptions\(grace_s='soon'\) is not possible: it may be a valid number"),
        (
            {"resources": {"gpu_count": "two"}},
            r"JobOptions\(resources.gpu_count='two'\) is not possible: it may be a valid integer",
        ),
    ],
)
def test_a_wrong_value_is_answered_with_what_it_may_be(given: Any, words: str) -> None:
    with pytest.raises(InvalidJob, match=words):
        options_from(given)


@pytest.mark.parametrize("field", ["idle_limit_s", "straggler_grace_s", "caller_lease_s"])
def test_limits_are_above_zero(field: str) -> None:
    with pytest.raises(InvalidCount):
        JobOptions(**{field: 0})  # type: ignore[arg-type]


def test_what_is_fetched_makes_no_other_job() -> None:
    assert JobOptions(fetch="metrics", fetch_limit=1, name="a").of_job == JobOptions(name="a")
