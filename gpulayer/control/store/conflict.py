"""What a write says when someone else was first."""

from __future__ import annotations


class Conflict(Exception):
    """Someone else wrote first: nothing of this transaction stays; read again and decide anew."""
