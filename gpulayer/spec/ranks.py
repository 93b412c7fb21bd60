"""How far the ranks of an attempt are."""

from __future__ import annotations

from typing import Literal

from gpulayer.spec.base import Record

Milestone = Literal["started", "joined", "met", "ended"]
"""Its process is up; it stands in torch's ``init_process_group``; it came out of it; its script ended well."""


class Ranks(Record):
    """The global ranks that have passed each milestone, in order.

    ``still`` are those that showed no line, file or processor time for as long as their workers were told to watch them.
    """

    started: tuple[int, ...] = ()
    joined: tuple[int, ...] = ()
    met: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    still: tuple[int, ...] = ()
