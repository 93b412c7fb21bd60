"""Batches of lines, packed and unpacked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulayer.control.store import packed_lines
from gpulayer.spec.logs import LogLine

LINE = st.builds(
    LogLine,
    job_id=st.just("job-1"),
    attempt=st.integers(1, 2),
    node_rank=st.integers(0, 1),
    rank=st.none() | st.integers(0, 3),
    stream=st.sampled_from(["stdout", "stderr", "agent"]),
    seq=st.integers(0, 5),
    time=st.sampled_from([1.5, 2.25]),
    text=st.text(max_size=20),
    call=st.none() | st.integers(0, 2),
)


@given(lines=st.lists(LINE, max_size=30))
def test_lines_come_back_as_they_went(lines: list[LogLine]) -> None:
    assert packed_lines.decode(packed_lines.encode(lines)) == lines


def test_a_thousand_lines_of_one_rank_take_little_room() -> None:
    lines = [
        LogLine(job_id="job-1", attempt=1, node_rank=0, rank=0, stream="stdout", seq=n, time=1.0, text=f"step {n} loss 0.5")
        for n in range(1000)
    ]
    assert len(packed_lines.encode(lines)) < 6_000


def test_what_a_newer_program_packed_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="newer"):
        packed_lines.decode(b"\x7fwhatever")
