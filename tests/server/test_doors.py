"""How a server is reached: TLS for anything but loopback, its own certificate pinned by fingerprint, and what it refuses."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from gpulayer.transport import interfaces
from tests.server.running import Serve, Server


def test_beyond_loopback_it_shows_a_certificate_of_its_own_that_stays(serve: Serve) -> None:
    server = serve("--host", "0.0.0.0")
    assert server.url.startswith("https://")
    fingerprint = server.told["fingerprint"]
    assert shown_at(server.port) == fingerprint
    trusted = ssl.create_default_context(cafile=str(server.data / "tls" / "cert.pem"))
    with httpx.Client(base_url=f"https://127.0.0.1:{server.port}", verify=trusted) as client:
        assert client.get("/healthz").status_code == 200
        headers = {"Authorization": f"Bearer {server.token()}"}
        made = client.post("/v1/tokens", json={"role": "join"}, headers=headers).json()
        assert made["token"].endswith(f".{fingerprint}")
    server.stop()
    server.start()
    assert server.told["fingerprint"] == fingerprint


def shown_at(port: int) -> str:
    pem = ssl.get_server_certificate(("127.0.0.1", port))
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def test_plain_http_beyond_loopback_must_be_asked_for(serve: Serve) -> None:
    server = serve("--host", "0.0.0.0", "--insecure")
    assert server.url.startswith("http://")
    assert httpx.get(f"http://127.0.0.1:{server.port}/healthz").status_code == 200


@pytest.mark.parametrize("options", [("--tls-cert", "pyproject.toml"), ("--tls-key", "pyproject.toml")])
def test_a_certificate_without_its_key_is_refused_before_anything_is_opened(tmp_path: Path, options: tuple[str, str]) -> None:
    server = Server(tmp_path / "data", *options)
    found = subprocess.run(server.arguments(), capture_output=True, text=True, timeout=60)
    assert found.returncode == 1
    assert "--tls-key" in found.stderr
    assert not (tmp_path / "data").exists()


def test_a_database_that_can_not_be_is_refused(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", database="mysql://here/db")
    found = subprocess.run(server.arguments(), capture_output=True, text=True, timeout=60)
    assert found.returncode == 1
    assert "postgresql://" in found.stderr


def test_on_all_addresses_it_names_each_that_other_machines_can_reach(serve: Serve) -> None:
    server = serve("--host", "0.0.0.0", "--insecure")
    table = [ipaddress.ip_address(each.address) for each in interfaces.table()]
    ours = {str(each) for each in table if each.version == 4 and not (each.is_loopback or each.is_link_local)}
    hosts = {httpx.URL(url).host for url in server.told["urls"]}
    assert hosts == (ours or {"127.0.0.1"})
    for url in server.told["urls"]:
        assert httpx.get(f"{url}/healthz").status_code == 200


def test_its_first_start_says_how_to_make_the_first_token(server: Server) -> None:
    assert server.told["first_token"].startswith("gpulayer tokens create --role admin --data ")
    server.token()
    server.stop()
    server.start()
    assert server.told["first_token"] == ""


def test_its_log_is_json_and_holds_no_token(server: Server) -> None:
    with server.asked_by("admin") as client:
        client.get("/v1/jobs/job-0", params={"owner": "hidden-in-a-query"})
    status, log = server.stop()
    lines = [json.loads(line) for line in log.splitlines()]
    assert status == 0
    assert [line["path"] for line in lines if line["event"] == "request"] == ["/v1/jobs/job-0"]
    assert server.token() not in log
    assert "hidden-in-a-query" not in log
