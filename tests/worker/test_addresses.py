"""Which address a worker advertises: one that leads to it from other machines."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpulayer.errors import WorkerStartFailed
from gpulayer.transport import interfaces
from gpulayer.transport.interfaces import Address
from gpulayer.worker import addresses
from gpulayer.worker.addresses import Ways, choose

LO = Address("lo", "127.0.0.1")
ETH = Address("eth0", "10.1.2.3")
ETH_6 = Address("eth0", "fd00::3")
LINK = Address("eth0", "fe80::3")
OTHER = Address("ens5", "192.168.7.7")
DOCKER = Address("docker0", "172.17.0.1")
TABLE = [LO, DOCKER, ETH, OTHER, LINK, ETH_6]


def ways(to_plane: str | None, *out: str, here: bool = False) -> Ways:
    return Ways(plane_is_here=here, to_plane=to_plane, out=out)


def test_the_address_on_the_way_to_the_plane_goes_before_all_others() -> None:
    assert choose(ways("192.168.7.7", "10.1.2.3"), TABLE) == "192.168.7.7"
    assert choose(ways("fd00::3", "10.1.2.3"), TABLE) == "fd00::3"


def test_a_plane_on_loopback_has_workers_on_this_machine_only() -> None:
    assert choose(ways("127.0.0.1", "10.1.2.3", here=True), TABLE) == "127.0.0.1"


def test_a_plane_on_this_machine_under_a_name_that_leads_to_loopback_is_reached_by_others_as_well() -> None:
    assert choose(ways("127.0.0.1", "10.1.2.3"), TABLE) == "10.1.2.3"
    assert choose(ways("127.0.1.1", "10.1.2.3"), [*TABLE, Address("lo", "127.0.1.1")]) == "10.1.2.3"


@pytest.mark.parametrize("name", ["docker0", "br-1f2e3d4c5b6a", "veth12ab", "virbr0", "tun0", "tailscale0", "cni0", "lxdbr0"])
def test_an_interface_that_is_the_same_everywhere_or_leads_inside_never_wins(name: str) -> None:
    inside = Address(name, "172.17.0.1")
    assert choose(ways("172.17.0.1", "172.17.0.1"), [LO, inside, ETH]) == "10.1.2.3"
    assert choose(ways("172.17.0.1", "172.17.0.1"), [LO, inside]) is None


def test_without_a_way_to_the_plane_any_address_that_leads_here_is_taken() -> None:
    assert choose(ways(None), [LO, LINK, ETH_6]) == "fd00::3"
    assert choose(ways(None), [LO, LINK]) is None


def test_an_address_that_was_asked_for_must_be_one_of_this_machine() -> None:
    assert addresses.advertised("127.0.0.1", None) == "127.0.0.1"
    with pytest.raises(WorkerStartFailed, match=r"198\.51\.100\.7 is no address of this machine") as failure:
        addresses.advertised("198.51.100.7", None)
    assert "127.0.0.1 (lo" in failure.value.next_step
    with pytest.raises(WorkerStartFailed, match="my-box is no address"):
        addresses.advertised("my-box", None)


def test_the_interface_of_an_address_is_found() -> None:
    assert addresses.interface_of("127.0.0.1") == addresses.interface_of("127.0.0.9")
    assert addresses.interface_of("198.51.100.7") is None
    assert LO.address in [each.address for each in interfaces.table()]


ASK = """
import sys
from gpulayer.worker import addresses
found = addresses.advertised(None, sys.argv[1])
print(found, found and addresses.interface_of(found))
"""
BUILD = """
ip link set lo up
ip link add docker0 type bridge; ip address add 172.17.0.1/16 dev docker0; ip link set docker0 up
ip link add eth0 type veth peer name far; ip link set far up
ip address add 10.1.2.3/24 dev eth0; ip address add 10.1.2.4/24 dev eth0; ip -6 address add fd77::3/64 dev eth0 nodad
ip link set eth0 up; ip route add default via 10.1.2.1
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="making a network namespace needs root")
@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("https://10.1.2.50:8470", "10.1.2.3 eth0"),
        ("https://203.0.113.9:8470", "10.1.2.3 eth0"),
        ("https://172.17.0.2:8470", "10.1.2.3 eth0"),
        ("https://172.17.0.1:8470", "10.1.2.3 eth0"),
        ("https://10.1.2.4:8470", "10.1.2.3 eth0"),
        ("https://[fd77::50]:8470", "fd77::3 eth0"),
        ("http://127.0.0.1:8470", "127.0.0.1 lo"),
    ],
)
def test_on_a_machine_with_docker_the_address_of_its_card_is_advertised(url: str, answer: str) -> None:
    words = ["unshare", "--net", "sh", "-ec", f'{BUILD}\nexec "$0" -c "$1" "$2"', sys.executable, ASK, url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == answer, done.stderr
