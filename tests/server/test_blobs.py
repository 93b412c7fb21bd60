"""Blobs over HTTP: in parts that go on after a kill, in ranges, checked, and in constant memory."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.server.given import digest
from tests.server.running import Serve, Server

PART = 8 * 1024 * 1024
MANY = b"0123456789abcdef" * 65536


def put(client: httpx.Client, sha256: str, data: bytes, start: int, total: int) -> httpx.Response:
    headers = {"Content-Range": f"bytes {start}-{start + len(data) - 1}/{total}"}
    return client.put(f"/v1/blobs/{sha256}", content=data, headers=headers)


def put_all(client: httpx.Client, data: bytes, part: int = PART) -> httpx.Response:
    for start in range(0, len(data), part):
        answer = put(client, digest(data), data[start : start + part], start, len(data))
        assert answer.status_code in (200, 201), answer.text
    return answer


def test_an_upload_goes_on_after_the_server_was_killed(server: Server) -> None:
    data = MANY * 3
    sha256 = digest(data)
    with server.asked_by("user") as client:
        first = put(client, sha256, data[:1_000_000], 0, len(data))
        assert (first.status_code, first.json()) == (200, {"offset": 1_000_000})
    server.kill()
    server.start(server.port)
    with server.asked_by("user") as client:
        assert client.get(f"/v1/uploads/{sha256}").json() == {"offset": 1_000_000}
        gap = put(client, sha256, data[2_000_000:], 2_000_000, len(data))
        assert (gap.status_code, gap.json()) == (200, {"offset": 1_000_000})
        last = put(client, sha256, data[900_000:], 900_000, len(data))
        assert (last.status_code, last.json()) == (201, {"sha256": sha256, "size": len(data)})
        assert client.get(f"/v1/blobs/{sha256}").content == data
        assert client.get(f"/v1/uploads/{sha256}").json() == {"offset": 0}


def test_other_bytes_than_promised_are_refused_and_nothing_is_kept(server: Server) -> None:
    wrong = digest(b"something else")
    with server.asked_by("user") as client:
        answer = put(client, wrong, b"these bytes", 0, 11)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
        assert client.head(f"/v1/blobs/{wrong}").status_code == 404
        assert client.head(f"/v1/blobs/{digest(b'these bytes')}").status_code == 404
        assert client.get(f"/v1/uploads/{wrong}").json() == {"offset": 0}
    assert [path for path in (server.data / "uploads").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Range": "bytes 0-5/3"},
        {"Content-Range": "bytes 5-2/9"},
        {"Content-Range": "nonsense"},
        {"Content-Range": "bytes 0-9/10"},
    ],
)
def test_a_part_that_does_not_fit_is_a_bad_request(server: Server, headers: dict[str, str]) -> None:
    with server.asked_by("user") as client:
        assert client.put(f"/v1/blobs/{digest(b'abc')}", content=b"abc", headers=headers).status_code == 400
        assert client.put("/v1/blobs/short", content=b"abc").status_code == 400


def test_small_and_empty_blobs_come_whole(server: Server) -> None:
    with server.asked_by("user") as client:
        for data in (b"", b"x"):
            assert client.put(f"/v1/blobs/{digest(data)}", content=data).status_code == 201
            assert client.get(f"/v1/blobs/{digest(data)}").content == data
        empty = client.put(f"/v1/blobs/{digest(b'')}", content=b"", headers={"Content-Range": "bytes */0"})
        assert empty.json() == {"sha256": digest(b""), "size": 0}


def test_ranges_are_read_as_files_are(server: Server) -> None:
    data = bytes(range(256)) * 16
    path = f"/v1/blobs/{digest(data)}"
    with server.asked_by("user") as client:
        put_all(client, data)
        whole = client.get(path)
        assert (whole.status_code, whole.content, whole.headers["Accept-Ranges"]) == (200, data, "bytes")
        for wanted, start, end in (("0-0", 0, 1), ("100-", 100, 4096), ("-6", 4090, 4096), ("4000-9999", 4000, 4096)):
            part = client.get(path, headers={"Range": f"bytes={wanted}"})
            assert (part.status_code, part.content) == (206, data[start:end])
            assert part.headers["Content-Range"] == f"bytes {start}-{end - 1}/4096"
        beyond = client.get(path, headers={"Range": "bytes=4096-"})
        assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, "bytes */4096")
        assert client.get(path, headers={"Range": "bytes=0-1,5-6"}).status_code == 400
        head = client.head(path)
        assert (head.status_code, head.headers["Content-Length"], head.content) == (200, "4096", b"")


def test_the_same_blob_from_many_at_once_is_one_blob(server: Server) -> None:
    data = MANY * 4
    with ThreadPoolExecutor(6) as pool, server.asked_by("user") as client:
        answers = list(pool.map(lambda _: put_all(client, data, part=512 * 1024), range(6)))
        assert [answer.json() for answer in answers] == [{"sha256": digest(data), "size": len(data)}] * 6
        assert client.get(f"/v1/blobs/{digest(data)}").content == data


def test_a_blob_over_the_limit_is_refused_before_it_is_sent(serve: Serve) -> None:
    server = serve("--max-blob-gb", "0.001")
    with server.asked_by("user") as client:
        answer = put(client, digest(b"x"), b"x" * 100, 0, 1_000_001)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "message_too_large")


def test_large_blobs_need_no_memory_on_the_server(server: Server, tmp_path: Path) -> None:
    parts, piece = 24, MANY * 8
    whole = hashlib.sha256()
    for _ in range(parts):
        whole.update(piece)
    sha256, total = whole.hexdigest(), parts * len(piece)
    with server.asked_by("user") as client:
        assert client.get("/v1/jobs").status_code == 200
        before = peak_kb(server.pid)
        for number in range(parts):
            assert put(client, sha256, piece, number * len(piece), total).status_code in (200, 201)
        got = hashlib.sha256()
        with client.stream("GET", f"/v1/blobs/{sha256}") as answer:
            for data in answer.iter_bytes():
                got.update(data)
        assert got.hexdigest() == sha256
        assert peak_kb(server.pid) - before < 64 * 1024


def peak_kb(pid: int) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])
