"""The user's exceptions come home as themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpulayer import errors
from gpulayer.runtime import faults
from gpulayer.spec.calls import ErrorRecord
from gpulayer.strategies import outcome


class Odd(ValueError):
    """Can't be made by calling it with its args, as many can't."""

    def __init__(self, code: int, *, row: dict[str, Any]) -> None:
        super().__init__(f"row {code}")
        self.code, self.row = code, row
        self.handle = lambda: 1


def home(error: BaseException, tmp_path: Path, **changes: Any) -> BaseException:
    path = tmp_path / "error"
    outcome.record_error(error, path)
    record = faults.describe(error).record(rank=3)
    return outcome.rebuild_error(record.model_copy(update=changes), path)


def test_class_args_and_attributes_come_back_without_the_constructor(tmp_path: Path) -> None:
    error = Odd(5, row={"x": [1]})
    error.add_note("mine")
    back = home(error, tmp_path)
    assert type(back) is Odd
    assert (back.args, back.code, back.row) == (("row 5",), 5, {"x": [1]})
    assert back.__notes__[0] == "mine"
    assert "On rank 3 of the job" in back.__notes__[1]


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file", "/x"),
        KeyError("k"),
        SystemExit(3),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
        json.JSONDecodeError("bad", "doc", 1),
        StopIteration(4),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_builtin_exceptions_come_back_whole(error: BaseException, tmp_path: Path) -> None:
    back = home(error, tmp_path)
    assert type(back) is type(error)
    assert back.args == error.args
    assert str(back) == str(error)
    for name in ("errno", "filename", "code", "value", "start", "lineno"):
        assert getattr(back, name, None) == getattr(error, name, None)


def test_a_class_that_is_not_here_becomes_a_remote_error(tmp_path: Path) -> None:
    back = home(Odd(1, row={}), tmp_path, module="not_here", qualname="Gone")
    assert type(back) is errors.RemoteError
    assert "Gone: row 1" in str(back)
    assert back.facts["rank"] == 3


def test_a_name_that_is_no_exception_becomes_a_remote_error(tmp_path: Path) -> None:
    assert type(home(Odd(1, row={}), tmp_path, module="pathlib", qualname="Path")) is errors.RemoteError


def test_args_that_cannot_be_carried_come_back_as_their_text(tmp_path: Path) -> None:
    back = home(ValueError("x", lambda: 1), tmp_path)
    assert back.args[0] == "x"
    assert "<lambda>" in back.args[1]


@pytest.mark.parametrize(
    "error",
    [
        KeyError("SEED"),
        FileNotFoundError(2, "No such file", "/x"),
        SystemExit(3),
        ValueError("a", 1, 0.5, None, True),
        OSError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_outside_of_calls_plain_args_and_builtin_fields_come_back(error: BaseException) -> None:
    told = ErrorRecord.model_validate_json(faults.describe(error).record(rank=0).model_dump_json())
    back = outcome.rebuild_error(told, None)
    assert (type(back), back.args, str(back)) == (type(error), error.args, str(error))
    for name in ("errno", "filename", "code"):
        assert getattr(back, name, None) == getattr(error, name, None)


def test_outside_of_calls_other_args_are_the_message() -> None:
    back = outcome.rebuild_error(faults.describe(ValueError("m", float("nan"), object)).record(rank=0), None)
    assert type(back) is ValueError
    assert back.args[0].startswith("('m', nan,")


def chained() -> BaseException:
    try:
        try:
            raise KeyError("row")
        except KeyError as cause:
            cause.add_note("the third one")
            raise ValueError("bad table") from cause
    except ValueError as error:
        return error


def test_what_it_came_from_comes_along(tmp_path: Path) -> None:
    back = home(chained(), tmp_path)
    assert isinstance(back.__cause__, KeyError)
    assert back.__cause__.args == ("row",)
    assert back.__cause__.__notes__ == ["the third one"]
    assert back.__suppress_context__


def test_a_cause_whose_class_is_not_here_ends_the_chain(tmp_path: Path) -> None:
    gone = type("Gone", (Exception,), {"__module__": "not_here"})
    error = ValueError("x")
    error.__cause__ = gone("y")
    back = home(error, tmp_path)
    assert type(back) is ValueError
    assert back.__cause__ is None


def test_a_chain_that_bites_its_tail_ends(tmp_path: Path) -> None:
    one, other = ValueError(1), ValueError(2)
    one.__cause__, other.__context__ = other, one
    back = home(one, tmp_path)
    assert back.__cause__ is not None
    assert back.__cause__.args == (2,)


def test_a_group_comes_with_its_members_as_they_are(tmp_path: Path) -> None:
    group = ExceptionGroup("two rows", [Odd(5, row={}), ExceptionGroup("inner", [KeyError("k")])])
    back = home(group, tmp_path)
    assert type(back) is ExceptionGroup
    assert back.message == "two rows"
    assert isinstance(back.exceptions[0], Odd)
    assert back.exceptions[0].code == 5
    assert isinstance(back.exceptions[1], ExceptionGroup)
    assert back.exceptions[1].exceptions[0].args == ("k",)


def test_a_group_with_a_member_that_is_not_here_is_a_remote_error(tmp_path: Path) -> None:
    gone = type("Gone", (Exception,), {"__module__": "not_here"})
    assert type(home(ExceptionGroup("g", [gone("y")]), tmp_path)) is errors.RemoteError
