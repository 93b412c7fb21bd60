"""Who may do what, as one table: role by action, and whose things the role may do it to."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gpulayer.spec.tokens import Role


class Action(StrEnum):
    """What is asked of a plane, by what it touches."""

    ABOUT = "read what the plane says of itself"
    SUBMIT = "submit jobs"
    READ_JOBS = "read jobs and their lines"
    CHANGE_JOBS = "cancel, remove or call jobs"
    READ_FILES = "read the artifacts of a job"
    READ_BLOBS = "read a blob"
    WRITE_BLOBS = "store a blob"
    READ_WORKERS = "list workers"
    DRAIN_WORKERS = "drain a worker"
    REMOVE_WORKERS = "remove a worker"
    BE_WORKER = "register, take orders or leave as a worker"
    REPORT = "report on a task, or send its lines"
    LIST_SECRETS = "list the names of secrets"
    CHANGE_SECRETS = "set or remove secrets"
    USE_SECRETS = "get the values of a job's secrets"
    MANAGE_TOKENS = "make, list or revoke tokens"
    JOIN = "join as a worker"
    BE_CALLER = "register as a caller"


class Whose(StrEnum):
    """To whose things a right extends."""

    ANY = "any"
    OWN_WORKER = "the worker that the token speaks for"
    WORKED = "jobs of which that worker holds a task, or held one"
    WORKING = "jobs of which that worker holds a task that has not ended"
    OWN_JOB = "the job that the token speaks for"


RIGHTS: Mapping[Action, Mapping[Role, Whose]] = {
    Action.ABOUT: {"user": Whose.ANY, "worker": Whose.ANY, "task": Whose.ANY},
    Action.SUBMIT: {"user": Whose.ANY},
    Action.READ_JOBS: {"user": Whose.ANY},
    Action.CHANGE_JOBS: {"user": Whose.ANY},
    Action.READ_FILES: {"user": Whose.ANY, "worker": Whose.WORKED, "task": Whose.OWN_JOB},
    Action.READ_BLOBS: {"user": Whose.ANY, "worker": Whose.ANY, "task": Whose.OWN_JOB},
    Action.WRITE_BLOBS: {"user": Whose.ANY, "worker": Whose.ANY, "task": Whose.ANY},
    Action.READ_WORKERS: {"user": Whose.ANY},
    Action.DRAIN_WORKERS: {"worker": Whose.OWN_WORKER},
    Action.REMOVE_WORKERS: {},
    Action.BE_WORKER: {"worker": Whose.OWN_WORKER},
    Action.REPORT: {"worker": Whose.WORKED},
    Action.LIST_SECRETS: {"user": Whose.ANY},
    Action.CHANGE_SECRETS: {},
    Action.USE_SECRETS: {"worker": Whose.WORKING},
    Action.MANAGE_TOKENS: {},
    Action.JOIN: {"join": Whose.ANY},
    Action.BE_CALLER: {"user": Whose.ANY},
}
"""An admin may do all of it, but for what only a worker has business with. A blob is named by its hash, so a worker may read
whichever it can name: a job's inputs are files of other jobs."""

_NOT_EVEN_ADMINS = frozenset({Action.USE_SECRETS, Action.JOIN})


def extent(role: Role, action: Action) -> Whose | None:
    """Return to whose things a role may do this; None when it may not at all."""
    if role == "admin":
        return None if action in _NOT_EVEN_ADMINS else Whose.ANY
    return RIGHTS[action].get(role)
