"""A network of hosts on one machine: each has its own address, process tree and hostname, and a link that can be cut.

A host is a set of Linux namespaces that live as long as its first process, and that dies with the test run: nothing has a name
that could stay behind. Needs root, iproute2, nftables and util-linux.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

NET = f"10.77.{os.getpid() % 250}"
"""One for each test run, as the test itself stands in it too, at .2."""
_OURS = f"glt{os.getpid()}"
_TOOLS = ("ip", "nft", "nsenter", "setpriv", "unshare")
_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
_END_S = 30.0
_SHARED = Path(f"/tmp/gpulayer-{os.getuid()}")
"""Where GPUlayer puts what must have a short name, or the same one on all machines: each host has its own there."""
_FIRST = "mount --bind {tmp} {shared}; hostname {name}; echo up; trap : CHLD; while true; do sleep 3600 & wait; done"
"""What a host's first process does: bash takes in orphans as an init would."""


def missing_for_hosts() -> str:
    """Say what keeps this machine from playing several hosts; empty when nothing does."""
    gone = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if gone:
        return f"{', '.join(gone)} missing"
    return "" if os.geteuid() == 0 else "making network namespaces needs root"


class Host:
    """One machine of a network; ``folder`` is its disk (the others' can be seen: no path on it leads there)."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        tmp = folder / "tmp"
        tmp.mkdir(mode=0o700, parents=True)
        _SHARED.mkdir(mode=0o700, exist_ok=True)
        argv = [*_WITH_US, "unshare", "--net", "--uts", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
        first = _FIRST.format(tmp=tmp, shared=_SHARED, name=name)
        self._unshare = subprocess.Popen([*argv, "bash", "-c", first], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self._unshare.stdout is not None
        if self._unshare.stdout.readline() != b"up\n":
            raise RuntimeError(f"host {name} did not come up")
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text().split()
        self.init = int(children[0])
        self._end = open(os.pidfd_open(self.init), "rb", buffering=0)  # noqa: SIM115
        self.do("ip", "link", "set", "lo", "up")

    def popen(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program on this host."""
        started = subprocess.Popen(
            [*self._enter(), *(("--wd=" + str(cwd),) if cwd else ()), "--", *argv],
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        self._started.append(started)
        return started

    def do(self, *argv: str) -> str:
        """Run a program on this host to its end; raises ``CalledProcessError`` when it fails."""
        return subprocess.run([*self._enter(), "--", *argv], check=True, capture_output=True, text=True).stdout

    def pids(self) -> list[int]:
        """Return the processes of this host, as the machine numbers them, its first one aside."""
        ours = os.readlink(f"/proc/{self.init}/ns/pid")
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns" / "pid") == ours and int(entry.name) != self.init:
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def filter(self, verdict: str) -> None:
        """Let packets over the link come under a verdict of nftables, in place of the one before; empty lets all through."""
        chains = ""
        for hook, side in (("input", "iifname"), ("output", "oifname")):
            rule = f'{side} "eth0" {verdict}' if verdict else ""
            chains += f"chain {hook} {{\ntype filter hook {hook} priority 0\n{rule}\n}}\n"
        script = f"add table inet link\ndelete table inet link\ntable inet link {{\n{chains}}}\n"
        subprocess.run([*self._enter(), "--", "nft", "-f", "-"], input=script, text=True, check=True, capture_output=True)

    def cut(self) -> None:
        """Let no packet in or out, without a word to either side."""
        self.filter("drop")

    def restore(self) -> None:
        """Let all packets through again."""
        self.filter("")

    def lose(self, percent: int) -> None:
        """Drop so many of a hundred packets that come in, and of those that go out, by chance."""
        self.filter(f"numgen random mod 100 < {percent} drop")

    def close(self) -> None:
        """End the host with everything on it."""
        for process in (self._unshare, *self._started):
            process.kill()  # nsenter stops itself when its child stops, and would not see the child's end
            process.wait()
        if self._unshare.stdout is not None:
            self._unshare.stdout.close()
        if self._end.closed:
            return
        with self._end:
            ended, _, _ = select.select([self._end], [], [], _END_S)  # the first process ends when all others have
        if not ended:
            raise RuntimeError(f"host {self.name} did not end within {_END_S:g} s")

    def _enter(self) -> list[str]:
        return [*_WITH_US, "nsenter", "-t", str(self.init), "--net", "--uts", "--pid", "--mount"]


@contextmanager
def network(folder: Path, names: Sequence[str]) -> Iterator[dict[str, Host]]:
    """Give hosts that reach each other, and the test, through a switch; all of it is gone at the end."""
    hosts: dict[str, Host] = {}
    switch = Host("switch", f"{NET}.1", folder / "switch")
    try:
        switch.do("ip", "link", "add", "br0", "type", "bridge")
        switch.do("ip", "link", "set", "br0", "up")
        _plug_ourselves(switch)
        for at, name in enumerate(names):
            hosts[name] = host = Host(name, f"{NET}.{10 + at}", folder / name)
            _plug(switch, host, f"port{at}")
        yield hosts
    finally:
        subprocess.run(["ip", "link", "del", _OURS], check=False, capture_output=True)  # the kernel would take its time
        for host in (*hosts.values(), switch):
            host.close()


def _plug(switch: Host, host: Host, port: str) -> None:
    ends = (
        "ip",
        "link",
        "add",
        port,
        "netns",
        str(switch.init),
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        str(host.init),
    )
    subprocess.run(ends, check=True, capture_output=True)
    switch.do("ip", "link", "set", port, "master", "br0", "up")
    host.do("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
    host.do("ip", "link", "set", "eth0", "up")


def _plug_ourselves(switch: Host) -> None:
    """Our end of the cable goes with the other, when the switch ends."""
    for words in (
        f"ip link add {_OURS} type veth peer name uplink netns {switch.init}",
        f"ip address add {NET}.2/24 dev {_OURS}",
        f"ip link set {_OURS} up",
    ):
        subprocess.run(words.split(), check=True, capture_output=True)
    switch.do("ip", "link", "set", "uplink", "master", "br0", "up")
