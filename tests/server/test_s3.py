"""Artifacts in a bucket: a server that speaks S3 keeps what jobs bring and leave."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
import sqlalchemy

from gpulayer.artifacts.store import BlobStore
from gpulayer.control.server.keeping import RELEASED_S
from gpulayer.control.store import tables
from gpulayer.control.store.store import open_database
from gpulayer.spec.files import Blob
from tests.control.given import until
from tests.end_to_end.processes import SCRIPT_S
from tests.end_to_end.test_remote import PROGRAMS, SEEDED, Fleet, gpulayer, run
from tests.server.given import digest, submit
from tests.server.running import Serve, Server
from tests.server.test_refusals import refused

BUCKET = "here"
REGION = "us-east-1"


class S3:
    """A server that speaks S3, with one bucket; it believes any key unless told that only ``keys`` of its own are good."""

    def __init__(self, folder: Path, *, port: int = 0, strict: bool = False) -> None:
        self.hold = folder / "hold-writes"
        program = [sys.executable, str(Path(__file__).with_name("s3_server.py")), str(port), str(self.hold)]
        open_calls = {"INITIAL_NO_AUTH_ACTION_COUNT": "4"} if strict else {}
        with (folder / "s3.log").open("wb") as log:
            self._process = subprocess.Popen(
                program, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **open_calls}
            )
        assert self._process.stdout is not None
        with self._process.stdout as said:
            self.port = int(said.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        self.keys = {"AWS_ACCESS_KEY_ID": "some", "AWS_SECRET_ACCESS_KEY": "key"}
        self._client("s3").create_bucket(Bucket=BUCKET)
        if strict:
            self.keys = self._make_keys()

    def _client(self, service: str) -> Any:
        key, secret = self.keys.values()
        given = {"aws_access_key_id": key, "aws_secret_access_key": secret, "region_name": REGION}
        return boto3.client(service, endpoint_url=self.url, **given)

    def _make_keys(self) -> dict[str, str]:
        iam = self._client("iam")
        iam.create_user(UserName="plane")
        made = iam.create_access_key(UserName="plane")["AccessKey"]
        allowed = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
        iam.put_user_policy(UserName="plane", PolicyName="all", PolicyDocument=allowed)
        return {"AWS_ACCESS_KEY_ID": made["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"]}

    def found(self, prefix: str = "") -> dict[str, int]:
        """Return the size of each object below a prefix."""
        listed = self._client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return {each["Key"]: each["Size"] for each in listed.get("Contents", ())}

    def buckets(self) -> list[str]:
        return [each["Name"] for each in self._client("s3").list_buckets()["Buckets"]]

    def put(self, key: str) -> None:
        self._client("s3").put_object(Bucket=BUCKET, Key=key, Body=b"x")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    made = S3(tmp_path)
    for name, value in {**made.keys, "AWS_ENDPOINT_URL": made.url, "AWS_DEFAULT_REGION": REGION}.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.mark.timeout(3 * SCRIPT_S)
def test_source_outputs_and_checkpoints_of_jobs_go_there_and_come_back(s3: S3, tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "caller"
    folder.mkdir()
    for name in ("whole.py", "remote.py"):
        shutil.copy(PROGRAMS / name, folder)
    (folder / "pyproject.toml").touch()
    (folder / "given.txt").write_text("given")
    (tmp_path / "plane").mkdir()
    fleet = Fleet(tmp_path / "plane", 2, "--artifacts", f"s3://{BUCKET}/some/prefix")
    try:
        fleet.wait_until_up()
        done = gpulayer(fleet, folder, "run", "--", "sh", "-c", "cat given.txt > made.txt")
        assert done.returncode == 0, done.stderr
        outcome, job_id = run(fleet, folder, "remote.py", JOB=SEEDED, DEVICES="1", MAX_EPOCHS="1")
        with closing(fleet.plane()) as plane:
            command = next(job for job in plane.jobs() if job.id != job_id)
            assert gpulayer(fleet, folder, "artifacts", "cat", command.id, "node0/made.txt").stdout == "given"
            assert {each.path for each in plane.checkpoints(job_id)} >= {outcome["paths"][0]}
            stored = {entry.blob for each in plane.checkpoints(job_id) for entry in each.entries}
            stored |= {each.blob for job in (command.id, job_id) for each in plane.artifacts(job)}
        in_bucket = s3.found("some/prefix/")
        assert stored
        assert {where(blob.sha256): blob.size for blob in stored}.items() <= in_bucket.items()
        assert not [path for path in in_bucket if "/parts/" in path]
        assert not (tmp_path / "plane" / "blobs").exists()
    finally:
        fleet.close()


def where(sha256: str, prefix: str = "some/prefix") -> str:
    return f"{prefix}/{sha256[:2]}/{sha256}"


def put(client: httpx.Client, data: bytes) -> httpx.Response:
    return client.put(f"/v1/blobs/{digest(data)}", content=data)


def a_bucket_server(serve: Serve) -> Server:
    return serve("--artifacts", f"s3://{BUCKET}/some/prefix")


def test_an_upload_that_a_kill_broke_off_is_not_seen_and_the_next_is_whole(s3: S3, serve: Serve) -> None:
    server = a_bucket_server(serve)
    data = os.urandom(3_000_000)
    s3.hold.touch()
    with server.asked_by("user") as client:
        sending = threading.Thread(target=broken_off, args=(client, data))
        sending.start()
        until(lambda: (server.data / "uploads").exists() and whole_upload(server, data), within_s=60)
        server.kill()
        sending.join()
    assert where(digest(data)) not in s3.found()
    s3.hold.unlink()
    server.start(server.port)
    with server.asked_by("user") as client:
        assert client.head(f"/v1/blobs/{digest(data)}").status_code == 404
        assert where(digest(data)) not in s3.found()
        assert put(client, data).status_code == 201
        assert client.get(f"/v1/blobs/{digest(data)}").content == data
        assert (
            client.get(f"/v1/blobs/{digest(data)}", headers={"Range": "bytes=2000000-2000004"}).content == data[2000000:2000005]
        )


def broken_off(client: httpx.Client, data: bytes) -> None:
    with pytest.raises(httpx.TransportError):
        put(client, data)


def whole_upload(server: Server, data: bytes) -> bool:
    return any(path.is_file() and path.stat().st_size == len(data) for path in (server.data / "uploads").rglob("*"))


def test_what_was_half_written_long_ago_is_swept_at_the_start(s3: S3) -> None:
    old, fresh = f"p/parts/{int(time.time()) - 100_000}-a", f"p/parts/{int(time.time()) - 1000}-b"
    s3.put(old)
    s3.put(fresh)
    BlobStore(f"s3://{BUCKET}/p").check()
    assert set(s3.found("p/")) == {fresh}


def test_collection_deletes_what_a_removed_job_had(s3: S3, serve: Serve) -> None:
    server = a_bucket_server(serve)
    with server.asked_by("admin") as client:
        own, kept = (Blob.model_validate(put(client, data).json()) for data in (b"own", b"kept"))
        going = submit(client, source=own.sha256)
        submit(client, source=kept.sha256)
        client.post(f"/v1/jobs/{going['id']}/cancel", json={"reason": "cancelled_by_user", "kill": False})
        long_ago(server, 2 * RELEASED_S)
        assert client.delete(f"/v1/jobs/{going['id']}").status_code == 204
        assert set(s3.found()) == {where(kept.sha256)}
        assert client.head(f"/v1/blobs/{own.sha256}").status_code == 404
        assert put(client, b"own").status_code == 201


def long_ago(server: Server, seconds: float) -> None:
    """Let all blobs have been spoken of last so many seconds ago."""
    store = open_database(server.database, server.data)
    with store.write() as db:
        db.execute(sqlalchemy.update(tables.blobs).values(touched_at=tables.blobs.c.touched_at - seconds))
    store.close()


def test_while_the_store_is_slow_everyone_else_is_answered(s3: S3, serve: Serve) -> None:
    server = a_bucket_server(serve)
    with ThreadPoolExecutor(80) as pool, server.asked_by("user") as client:
        s3.hold.touch()
        sending = [pool.submit(put, client, b"%d" % number) for number in range(30)]
        until(lambda: len(list((server.data / "uploads").rglob("*"))) >= 16, within_s=60)
        submitted = [pool.submit(submit, client, name=f"job {number}") for number in range(50)]
        assert len({job.result(timeout=60)["id"] for job in submitted}) == 50
        assert not any(each.done() for each in sending)
        s3.hold.unlink()
        assert {each.result(timeout=60).status_code for each in sending} == {201}
    assert len(s3.found("some/prefix/")) == 30


def test_while_the_store_is_away_it_says_so_and_then_goes_on(s3: S3, serve: Serve, tmp_path: Path) -> None:
    server = a_bucket_server(serve)
    s3.close()
    with server.asked_by("user") as client:
        answer = put(client, b"meanwhile")
        assert answer.status_code == 503, answer.text
        assert f"s3://{BUCKET}/some/prefix" in answer.json()["error"]["sentence"]
        assert float(answer.headers["Retry-After"]) > 0
        assert submit(client)["state"] == "queued"
        again = S3(tmp_path, port=s3.port)
        try:
            assert put(client, b"meanwhile").status_code == 201
            assert where(digest(b"meanwhile")) in again.found()
        finally:
            again.close()


def test_a_bucket_that_is_not_there_is_refused_and_not_made(s3: S3, tmp_path: Path) -> None:
    said = refused("--data", tmp_path, "--artifacts", "s3://elsewhere/prefix")
    assert "s3://elsewhere/prefix" in said
    assert "bucket does not exist" in said
    assert s3.buckets() == [BUCKET]


def test_a_key_that_the_store_does_not_know_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = S3(tmp_path, strict=True)
    try:
        given = {**strict.keys, "AWS_SECRET_ACCESS_KEY": "wrong", "AWS_ENDPOINT_URL": strict.url, "AWS_DEFAULT_REGION": REGION}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        said = refused("--data", tmp_path / "data", "--artifacts", f"s3://{BUCKET}/x")
        assert "Forbidden" in said
        assert "credentials" in said
        assert "wrong" not in said
    finally:
        strict.close()


def test_a_local_folder_can_be_named_as_a_url(serve: Serve, tmp_path: Path) -> None:
    server = serve("--artifacts", f"file://{tmp_path / 'elsewhere'}")
    with server.asked_by("user") as client:
        assert put(client, b"here").status_code == 201
        assert (tmp_path / "elsewhere" / digest(b"here")[:2] / digest(b"here")).read_bytes() == b"here"
        assert client.get(f"/v1/blobs/{digest(b'here')}").content == b"here"
