"""The error tree: stable codes, and the way over the wire and back."""

from __future__ import annotations

import json

import pytest

from gpulayer import errors


def test_every_class_has_a_code_of_its_own() -> None:
    classes = errors._tree(errors.GPULayerError)
    codes = {cls.__dict__.get("code") for cls in classes}
    assert None not in codes
    assert len(codes) == len(set(classes))


@pytest.mark.parametrize("cls", sorted(errors.by_code().values(), key=lambda c: c.code), ids=lambda c: c.code)
def test_an_error_comes_over_the_wire_as_itself(cls: type[errors.GPULayerError]) -> None:
    sent = cls("It broke.", next_step="Mend it.", job_id="job-1", count=2)
    got = errors.from_wire(json.loads(json.dumps(sent.to_wire())))
    assert type(got) is cls
    assert (str(got), got.facts) == ("It broke. Mend it.", {"job_id": "job-1", "count": 2})


def test_a_code_of_a_newer_version_becomes_the_base_class() -> None:
    got = errors.from_wire({"code": "from_the_future", "sentence": "New."})
    assert type(got) is errors.GPULayerError
    assert str(got) == "New."


def test_the_tree_in_the_docstring_names_every_class() -> None:
    drawn = errors.__doc__ or ""
    assert [c.__name__ for c in errors._tree(errors.GPULayerError) if c.__name__ not in drawn] == []
