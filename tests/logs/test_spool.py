"""The spool: written by one process, followed by another, whatever happens to either."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpulayer.logs import spool
from gpulayer.logs.spool import SpooledLine, SpoolReader, SpoolWriter


def texts(lines: list[SpooledLine]) -> list[str]:
    return [line.text for line in lines]


def test_a_thousand_numbered_lines_arrive_in_order_per_rank_and_stream(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    for number in range(1000):
        for rank in (0, 1):
            writer.feed(rank, "stdout", f"line {number} of {rank}\n".encode(), 1.5)
    writer.feed(None, "agent", b"agent here", 2.5)
    writer.close()
    lines = reader.read(most=100_000)
    for rank in (0, 1):
        mine = [line for line in lines if line.rank == rank]
        assert [(line.seq, line.text, line.time) for line in mine] == [(n, f"line {n} of {rank}", 1.5) for n in range(1000)]
    assert lines[-1] == SpooledLine(None, "agent", 0, 2.5, None, "agent here")
    assert reader.read() == []
    reader.close()


def test_a_reader_sees_each_line_once_as_it_comes(tmp_path: Path) -> None:
    reader = SpoolReader(tmp_path)
    assert reader.read() == []
    writer = SpoolWriter(tmp_path)
    writer.feed(3, "stderr", b"one\ntw", 1.0)
    assert texts(reader.read()) == ["one"]
    writer.feed(3, "stderr", b"o\n", 2.0)
    assert texts(reader.read()) == ["two"]
    assert reader.read() == []
    writer.end(3, "stderr")
    writer.close()
    reader.close()


def test_a_new_reader_goes_on_after_the_marks(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.feed(0, "stdout", b"a\nb\nc\n", 1.0)
    writer.feed(0, "stderr", b"x\ny\n", 1.0)
    writer.close()
    reader = SpoolReader(tmp_path)
    assert texts(reader.read({"0/stdout": 1, "0/stderr": 1, "none/agent": 7})) == ["c"]
    reader.close()


def test_a_reader_stops_where_it_was_asked_to_and_goes_on_there(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    for number in range(100):
        writer.feed(0, "stdout", f"{number}\n".encode(), 1.0)
    got = [texts(reader.read(most=30)) for _ in range(4)]
    assert [len(lines) for lines in got] == [30, 30, 30, 10]
    assert [text for lines in got for text in lines] == [str(number) for number in range(100)]
    writer.close()
    reader.close()


def test_call_markers_number_the_lines_of_their_stream_only(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    writer.feed(0, "stdout", b"before\n\x1egpulayer call=0\nin\n\x1egpulayer call=-\nafter\n", 1.0)
    writer.feed(0, "stderr", b"elsewhere\n", 1.0)
    writer.close()
    assert [(line.seq, line.call, line.text) for line in reader.read()] == [
        (0, None, "before"),
        (1, 0, "in"),
        (2, None, "after"),
        (0, None, "elsewhere"),
    ]
    reader.close()


@pytest.mark.parametrize("torn", [1, 20, 60])
def test_half_a_frame_at_the_end_is_left_and_a_new_writer_goes_on_before_it(tmp_path: Path, torn: int) -> None:
    writer = SpoolWriter(tmp_path)
    writer.feed(0, "stdout", b"whole\n", 1.0)
    writer.feed(0, "stdout", b"this one is torn by the end of its writer\n", 1.0)
    writer.close()
    file = tmp_path / spool.FILE_NAME
    os.truncate(file, file.stat().st_size - torn)
    reader = SpoolReader(tmp_path)
    assert texts(reader.read()) == ["whole"]
    assert reader.read() == []
    again = SpoolWriter(tmp_path)
    again.feed(0, "stdout", b"second life\n", 2.0)
    again.close()
    assert [(line.seq, line.text) for line in reader.read()] == [(1, "second life")]
    reader.close()


def test_a_damaged_frame_ends_the_reading_there(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.feed(0, "stdout", b"good\n", 1.0)
    writer.feed(0, "stdout", b"damaged\n", 1.0)
    writer.close()
    file = tmp_path / spool.FILE_NAME
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    reader = SpoolReader(tmp_path)
    assert texts(reader.read()) == ["good"]
    reader.close()


def test_lines_survive_the_kill_of_their_writer(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from gpulayer.logs.spool import SpoolWriter\n"
        "writer = SpoolWriter(Path(sys.argv[1]))\n"
        "for n in range(1000): writer.feed(n % 3, 'stdout', f'{n}\\n'.encode(), 1.0)\n"
        "print('written', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "written\n"
        child.send_signal(signal.SIGKILL)
    reader = SpoolReader(tmp_path)
    assert texts(reader.read()) == [str(number) for number in range(1000)]
    reader.close()


def test_a_runaway_stream_is_cut_visibly_and_its_last_lines_stay(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, cap_bytes=100_000)
    for number in range(100_000):
        writer.feed(0, "stdout", f"line {number}\n".encode(), 1.0)
    writer.feed(1, "stderr", b"Traceback of the culprit\n", 1.0)
    writer.close()
    assert (tmp_path / spool.FILE_NAME).stat().st_size < 100_000 + 2 * spool._LAST_BYTES * 10
    reader = SpoolReader(tmp_path)
    lines = reader.read(most=1_000_000)
    reader.close()
    runaway = [line for line in lines if line.rank == 0]
    assert [line.seq for line in runaway] == list(range(len(runaway)))
    told = [at for at, line in enumerate(runaway) if line.text.startswith("[gpulayer]")]
    assert len(told) == 2
    assert "limit" in runaway[told[0]].text
    assert "left out" in runaway[told[1]].text
    assert texts(runaway[: told[0]]) == [f"line {number}" for number in range(told[0])]
    left_out = int(runaway[told[1]].text.split()[1].replace(",", ""))
    assert texts(runaway[told[1] + 1 :]) == [f"line {number}" for number in range(told[0] + left_out, 100_000)]
    assert "Traceback of the culprit" in texts([line for line in lines if line.rank == 1])


def test_a_full_disk_loses_lines_visibly_and_tears_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    writer.feed(0, "stdout", b"before\n", 1.0)
    real = os.write
    room = [30]

    def write(file: int, data: memoryview) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        part, room[0] = data[: room[0]], 0
        return real(file, part)

    monkeypatch.setattr(os, "write", write)
    writer.feed(0, "stdout", b"no room\n", 1.0)
    monkeypatch.setattr(os, "write", real)
    writer.feed(0, "stdout", b"room again\n", 1.0)
    writer.close()
    assert texts(reader.read())[0] == "before"
    reader.close()


def test_a_reader_beside_a_writer_misses_nothing(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)

    def write() -> None:
        for number in range(20_000):
            writer.feed(number % 4, "stdout", f"{number} {'x' * (number % 300)}\n".encode(), 1.0)

    thread = threading.Thread(target=write)
    thread.start()
    got: list[SpooledLine] = []
    deadline = time.monotonic() + 60
    while len(got) < 20_000 and time.monotonic() < deadline:
        got += reader.read(most=500)
    thread.join()
    writer.close()
    reader.close()
    assert [int(line.text.split()[0]) for line in got] == list(range(20_000))


def test_the_spool_imports_the_standard_library_only() -> None:
    program = "import sys, gpulayer.logs.spool; sys.exit(bool({'pydantic', 'fsspec', 'torch', 'zmq'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
