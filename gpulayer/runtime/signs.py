"""Signs of life of this process and its descendants: what they have computed, read and written (standard library only)."""

from __future__ import annotations

import os

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Signs:
    """Looks at /proc; what these looks read themselves doesn't count."""

    def __init__(self) -> None:
        self._own_reads = 0

    def look(self) -> tuple[float, int]:
        """Return the seconds of processor time used so far, and the bytes moved to and from files and pipes."""
        by_parent: dict[int, list[int]] = {}
        used_s: dict[int, float] = {}
        for name in os.listdir("/proc"):
            fields = self._read(f"/proc/{name}/stat").rpartition(") ")[2].split() if name.isdigit() else []
            if fields:
                by_parent.setdefault(int(fields[1]), []).append(int(name))
                used_s[int(name)] = (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND
        family, todo = [], [os.getpid()]
        while todo:
            family.append(todo.pop())
            todo += by_parent.get(family[-1], [])
        reads = self._own_reads
        moved = sum(map(self._moved, family))  # we come first: our own reads until then are known
        return sum(used_s.get(pid, 0.0) for pid in family), moved - reads

    def _moved(self, pid: int) -> int:
        fields = dict(line.split(": ") for line in self._read(f"/proc/{pid}/io").splitlines())
        return int(fields.get("rchar", 0)) + int(fields.get("wchar", 0))

    def _read(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            return ""
        self._own_reads += len(text.encode(errors="replace"))
        return text
