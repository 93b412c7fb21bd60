"""How the command line prints: tables, JSON, bare ids, and sizes and times in words."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from gpulayer.cli import following
from gpulayer.cli.lines import line_json
from gpulayer.cli.outcome import Refusal
from gpulayer.cli.output import Form, Listing, age, print_list, print_one, size, span, with_forms
from gpulayer.client import follow
from gpulayer.errors import GPULayerError
from gpulayer.logs.render import Renderer
from gpulayer.spec.logs import LogLine

THINGS = ["a", "bcd"]


@click.command()
@with_forms()
@click.option("--none", "nothing", is_flag=True)
def listing(form: Form, nothing: bool) -> None:
    found = [] if nothing else THINGS
    columns = {"ID": lambda thing: thing, "LENGTH": len, "NOTE": lambda thing: None}
    print_list(found, form, facts=lambda thing: {"id": thing, "length": len(thing)}, columns=columns, nothing="No things.")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([], "ID   LENGTH  NOTE\na    1       -\nbcd  3       -\n"),
        (["-q"], "a\nbcd\n"),
        (["--quiet"], "a\nbcd\n"),
        (["--none", "-q"], ""),
        (["--none", "--json"], "[]\n"),
    ],
)
def test_a_list_in_each_form(arguments: list[str], printed: str) -> None:
    done = CliRunner().invoke(listing, arguments)
    assert done.exit_code == 0
    assert done.stdout == printed


def test_json_is_an_array_of_objects() -> None:
    assert json.loads(CliRunner().invoke(listing, ["--json"]).stdout) == [{"id": "a", "length": 1}, {"id": "bcd", "length": 3}]


def test_an_empty_table_says_so_on_stderr() -> None:
    done = CliRunner().invoke(listing, ["--none"])
    assert done.stdout == ""
    assert done.stderr == "No things.\n"


NARROW = Listing[str](
    lambda name: {"id": name}, {"ID": str, "NAME": lambda name: name * 9, "STATE": str, "WHAT": lambda name: "x" * 90}
)


def test_a_table_is_cut_to_the_terminal_but_for_the_ids() -> None:
    job = "job-0123456789ab"

    head, row = NARROW.text([job], Form.TABLE, 80).splitlines()

    assert len(row) == 80
    assert row.startswith(f"{job}  {job}")
    assert row.split()[1].endswith("…")
    assert row.endswith("x…")
    assert head.split() == ["ID", "NAME", "STATE", "WHAT"]


def test_nothing_is_cut_where_no_terminal_is() -> None:
    assert "x" * 90 in NARROW.text(["job-1"], Form.TABLE)


def test_one_thing_leaves_out_what_is_empty_and_aligns_further_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_one({"id": "x", "gone": None, "tasks": "one\ntwo"}, Form.TABLE)
    assert capsys.readouterr().out == "id     x\ntasks  one\n       two\n"


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0s"), (7, "7s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")]
)
def test_spans(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_ages() -> None:
    assert age(None) is None
    assert age(100.0, now=107.5) == "7s"


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000_000, "2.0 GB"), (10**15, "1000.0 TB")]
)
def test_sizes(count: int, words: str) -> None:
    assert size(count) == words


EVIL = "a\x1b]0;x\x07b\x9b2J\x7f\nc"
SHOWN = r"a\x1b]0;x\x07b\x9b2J\x7f"


@click.command()
@with_forms()
def evil(form: Form) -> None:
    print_list([EVIL], form, facts=lambda name: {"id": name}, columns={"ID": lambda name: name})


@pytest.mark.parametrize("arguments", [[], ["-q"]])
def test_control_characters_in_a_name_are_shown_and_end_no_row(arguments: list[str]) -> None:
    assert CliRunner().invoke(evil, arguments).stdout.splitlines()[-1] == rf"{SHOWN}\x0ac"


def test_control_characters_of_one_thing_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_one({"name": EVIL}, Form.TABLE)
    assert capsys.readouterr().out == f"name  {SHOWN}\n      c\n"


def test_our_own_words_carry_no_control_characters_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    following.say(EVIL)
    follow.say(EVIL)
    assert capsys.readouterr().err == f"gpulayer: {SHOWN}\nc\n" * 2
    assert Refusal(GPULayerError(EVIL)).message == f"{SHOWN}\nc"


def test_json_lines_carry_no_control_characters() -> None:
    line = LogLine(job_id="j", attempt=1, node_rank=0, rank=0, stream="stdout", seq=0, time=0.0, text=EVIL)
    told = line_json(line, {(1, 0): EVIL})
    assert told.isprintable()
    assert json.loads(told)["text"] == EVIL


def test_a_tag_shows_the_control_characters_of_a_worker_and_the_text_stays_raw() -> None:
    line = LogLine(job_id="j", attempt=1, node_rank=0, rank=0, stream="stdout", seq=0, time=0.0, text="\x1b[1mbold")
    assert Renderer(workers={(1, 0): "w\x1bx"}).line(line) == "[rank0@w\\x1bx] \x1b[1mbold"
