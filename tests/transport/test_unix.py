"""Messages over Unix sockets: framing, time-outs, ends, long paths."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from gpulayer.errors import MessageTooLarge
from gpulayer.spec.rank_messages import FROM_RANK, Hello, Left, Raised
from gpulayer.transport import unix


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[unix.Connection, unix.Connection]]:
    listener = unix.listen(tmp_path)
    near = unix.connect(tmp_path / "rank.sock", 5)
    far = listener.accept(5)
    assert far is not None
    yield near, far
    near.close()
    far.close()
    listener.close()


def test_messages_arrive_as_they_were_sent(pair: tuple[unix.Connection, unix.Connection]) -> None:
    near, far = pair
    near.send(Hello(attempt=1, rank=3, pid=42))
    near.send(Left(calls=2, exit_code=0, error=Raised(module="m", qualname="E", message="zwei\nZeilen \x1e ü")))
    assert far.receive(FROM_RANK, 5) == Hello(attempt=1, rank=3, pid=42)
    assert far.pending
    assert far.receive(FROM_RANK, 5) == Left(
        calls=2, exit_code=0, error=Raised(module="m", qualname="E", message="zwei\nZeilen \x1e ü")
    )


def test_a_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    folder.mkdir(parents=True)
    listener = unix.listen(folder)
    near = unix.connect(folder / "rank.sock", 5)
    far = listener.accept(5)
    assert far is not None
    near.send(Hello(attempt=1, rank=0, pid=1))
    assert far.receive(FROM_RANK, 5) == Hello(attempt=1, rank=0, pid=1)
    for end in (near, far, listener):
        end.close()
    assert not (folder / "rank.sock").exists()


def test_a_time_out_keeps_what_has_come(pair: tuple[unix.Connection, unix.Connection]) -> None:
    near, far = pair
    line = Hello(attempt=1, rank=0, pid=7).model_dump_json().encode() + b"\n"
    os.write(near.fileno(), line[:10])
    with pytest.raises(TimeoutError):
        far.receive(FROM_RANK, 0.01)
    os.write(near.fileno(), line[10:])
    assert far.receive(FROM_RANK, 5) == Hello(attempt=1, rank=0, pid=7)


def test_the_end_of_the_stream_is_none_and_a_half_message_is_dropped(pair: tuple[unix.Connection, unix.Connection]) -> None:
    near, far = pair
    near.send(Hello(attempt=1, rank=0, pid=7))
    os.write(near.fileno(), b'{"kind": "hel')
    near.close()
    assert far.receive(FROM_RANK, 5) == Hello(attempt=1, rank=0, pid=7)
    assert far.receive(FROM_RANK, 5) is None
    assert far.receive(FROM_RANK, 5) is None
    with pytest.raises(BrokenPipeError):
        far.send(Hello(attempt=1, rank=0, pid=7))


def test_closing_ends_a_receive_in_another_thread(pair: tuple[unix.Connection, unix.Connection]) -> None:
    _, far = pair
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(far.receive, FROM_RANK)
        far.close()
        assert waiting.result(5) is None
    far.close()


def test_closing_ends_an_accept_in_another_thread(tmp_path: Path) -> None:
    listener = unix.listen(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(listener.accept)
        listener.close()
        assert waiting.result(5) is None
    assert listener.accept(1) is None


def test_an_accept_that_nobody_dials_times_out(tmp_path: Path) -> None:
    listener = unix.listen(tmp_path)
    with pytest.raises(TimeoutError):
        listener.accept(0.01)
    listener.close()


def test_many_threads_send_whole_messages(pair: tuple[unix.Connection, unix.Connection]) -> None:
    near, far = pair
    text = "x" * 50_000

    def send(rank: int) -> None:
        for calls in range(20):
            near.send(Left(calls=calls, exit_code=rank, error=Raised(module="m", qualname="E", message=text)))

    senders = [threading.Thread(target=send, args=(rank,)) for rank in range(4)]
    for sender in senders:
        sender.start()
    got = [far.receive(FROM_RANK, 30) for _ in range(80)]
    for sender in senders:
        sender.join()
    for rank in range(4):
        assert [m.calls for m in got if isinstance(m, Left) and m.exit_code == rank] == list(range(20))


def test_a_message_that_is_refused_does_not_end_the_conversation(pair: tuple[unix.Connection, unix.Connection]) -> None:
    near, far = pair
    os.write(near.fileno(), b"not json\n")
    near.send(Hello(attempt=1, rank=0, pid=7))
    with pytest.raises(ValidationError):
        far.receive(FROM_RANK, 5)
    assert far.receive(FROM_RANK, 5) == Hello(attempt=1, rank=0, pid=7)


def test_messages_over_the_limit_are_refused_on_both_sides(
    pair: tuple[unix.Connection, unix.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = pair
    monkeypatch.setattr(unix, "LONGEST_MESSAGE", 1000)
    with pytest.raises(MessageTooLarge):
        near.send(Left(calls=0, exit_code=0, error=Raised(module="m", qualname="E", message="x" * 2000)))
    os.write(near.fileno(), b"x" * 2000)
    with pytest.raises(MessageTooLarge):
        far.receive(TypeAdapter(dict[str, str]), 5)


def test_a_full_queue_makes_connect_wait_and_then_time_out(tmp_path: Path) -> None:
    full = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    full.bind(str(tmp_path / "full.sock"))
    full.listen(0)
    first = unix.connect(tmp_path / "full.sock", 5)
    with pytest.raises(TimeoutError):
        unix.connect(tmp_path / "full.sock", 0.05)
    first.close()
    full.close()


def test_a_missing_socket_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        unix.connect(tmp_path / "none.sock", 1)
