"""The network that the other tests stand on: it must cut, lose and restore as it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.network.lan import Host

_LISTEN = "import socket; s = socket.create_server(('0.0.0.0', 9000)); print('up', flush=True); s.accept()[0].sendall(b'hello')"
_DIAL = "import socket, sys; print(socket.create_connection((sys.argv[1], 9000), timeout=1).recv(5).decode())"


def reaches(one: Host, other: Host) -> bool:
    """Whether a ping gets there and back; a lost packet is sent again."""
    try:
        one.do("ping", "-c", "1", "-W", "1", other.address)
    except subprocess.CalledProcessError:
        return False
    return True


def test_hosts_reach_each_other_by_their_own_addresses(hosts: dict[str, Host]) -> None:
    listening = hosts["red"].popen(sys.executable, "-c", _LISTEN, stdout=subprocess.PIPE)
    assert listening.stdout is not None
    with listening.stdout:
        assert listening.stdout.readline() == b"up\n"
        assert hosts["blue"].do(sys.executable, "-c", _DIAL, hosts["red"].address) == "hello\n"
    assert listening.wait(10) == 0
    assert hosts["blue"].do("hostname") == "blue\n"


def test_the_test_itself_reaches_them(hosts: dict[str, Host]) -> None:
    subprocess.run(["ping", "-c", "1", "-W", "2", hosts["red"].address], check=True, capture_output=True)


def test_a_cut_link_carries_nothing_until_it_is_restored(hosts: dict[str, Host]) -> None:
    red, blue = hosts["red"], hosts["blue"]
    assert reaches(red, blue)
    blue.cut()
    assert not reaches(red, blue)
    assert not reaches(blue, red)
    assert reaches(red, hosts["server"])
    blue.restore()
    assert reaches(red, blue)


def test_a_lossy_link_loses_about_as_many_packets_as_asked(hosts: dict[str, Host]) -> None:
    hosts["red"].lose(30)
    said = subprocess.run(
        [
            "nsenter",
            "-t",
            str(hosts["blue"].init),
            "--net",
            "ping",
            "-q",
            "-c",
            "200",
            "-i",
            "0.002",
            "-W",
            "1",
            hosts["red"].address,
        ],
        capture_output=True,
        text=True,
    ).stdout
    received = int(said.split(" received")[0].rsplit(" ", 1)[1])
    assert 60 < received < 140  # 0.7 * 0.7 of 200, give or take six deviations


def test_a_host_takes_all_its_processes_with_it(hosts: dict[str, Host]) -> None:
    blue = hosts["blue"]
    blue.popen("setsid", "sleep", "1000")
    one = blue.popen("sleep", "1000")
    pids = blue.pids()
    assert len(pids) >= 1
    blue.close()
    one.wait(10)
    assert not [
        pid for pid in pids if os.path.exists(f"/proc/{pid}") and b"Z" not in Path(f"/proc/{pid}/stat").read_bytes()[:40]
    ]


def test_every_host_has_a_place_of_its_own_where_all_have_the_same_path(hosts: dict[str, Host]) -> None:
    path = f"/tmp/gpulayer-{os.getuid()}/here"
    hosts["red"].do("touch", path)
    assert (hosts["red"].folder / "tmp" / "here").exists()
    with pytest.raises(subprocess.CalledProcessError):
        hosts["blue"].do("ls", path)
