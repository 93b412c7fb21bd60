"""The two kinds of frozen value: what a person writes, and what our parts record."""

from __future__ import annotations

import secrets
from typing import Literal

from pydantic import BaseModel, ConfigDict

IdKind = Literal["job", "wkr", "prc", "tok"]


DEFERRED = ConfigDict(defer_build=True)
"""Validators are built when first used: every process imports the whole vocabulary and speaks a part of it."""


class Spec(BaseModel):
    """A value that a person may write: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, **DEFERRED)


class Record(BaseModel):
    """A value that one part writes for another: fields of a newer version are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", **DEFERRED)


def new_id(kind: IdKind) -> str:
    """Return a fresh id such as ``job-10c5089a6044``."""
    return f"{kind}-{secrets.token_hex(6)}"
