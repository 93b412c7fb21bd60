"""Which of the things that went wrong was the first true cause, and how to say it."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from gpulayer.spec.calls import ErrorRecord
from gpulayer.spec.causes import Evidence
from gpulayer.spec.records import JobRecord
from gpulayer.spec.states import Reason

WINDOW_S = 2.0
"""How long after the first evidence a truer one may still come in: agents look at their ranks only so often."""

_TRUE, _DERIVED, _COMMUNICATION, _ECHO = range(4)
_RANKING = {"communication": _COMMUNICATION, "diverged": _DERIVED, "straggler": _DERIVED, "rendezvous": _DERIVED}
_REASONS = {
    "signal": Reason.SIGNALLED,
    "exit": Reason.EXITED,
    "exception": Reason.USER_ERROR,
    "communication": Reason.USER_ERROR,
    "preparation": Reason.PREPARATION_FAILED,
    "rendezvous": Reason.RENDEZVOUS_FAILED,
    "diverged": Reason.CALLS_DIVERGED,
    "straggler": Reason.STRAGGLER,
}


def first_cause(evidence: Iterable[Evidence]) -> Evidence | None:
    """Choose the first true cause; ties go to what was heard first.

    Within the window a signal, an exit without a record or the user's exception outranks what reads like a peer's death.
    What the stop itself brings about (SIGTERM after the first evidence) counts last.
    """
    heard = sorted(evidence, key=lambda each: each.at)
    if not heard:
        return None
    within = [each for each in heard if each.at <= heard[0].at + WINDOW_S]
    if all(is_communication(each) for each in within):  # a busy machine may be late to tell who was killed
        within += [each for each in heard if each.kind == "signal" and each not in within]
    candidates = [each for each in within if not _is_shadow(each, within)]
    return min(candidates, key=lambda each: _rank(each, first=each is heard[0]))


def is_communication(evidence: Evidence) -> bool:
    """Say whether it reads like a peer's death rather than a cause of its own."""
    return evidence.kind == "communication" or (evidence.error is not None and evidence.error.communication)


def reason_of(cause: Evidence, world_size: int) -> Reason:
    """Return the reason that a job which failed of ``cause`` gets."""
    if is_communication(cause) and world_size > 1:
        return Reason.PEER_FAILED
    return _REASONS[cause.kind]


def sentence_of(cause: Evidence, record: JobRecord) -> str:
    """Say for people what went wrong, and where."""
    if cause.sentence:
        return cause.sentence
    who = _who(cause, record)
    if cause.error is not None:
        return f"{who} raised {_error(cause.error)}"
    if cause.kind == "signal":
        return f"{who} was killed by {_signal_name(cause.signal)}."
    if cause.kind == "exit":
        return f"{who} exited with code {cause.exit_code}."
    return f"{who} failed ({cause.kind})."


def _rank(evidence: Evidence, *, first: bool) -> int:
    if not first and _is_sigterm(evidence):
        return _ECHO
    if is_communication(evidence):
        return _COMMUNICATION
    return _RANKING.get(evidence.kind, _TRUE)


def _is_sigterm(evidence: Evidence) -> bool:
    if evidence.error is not None:
        return evidence.error.qualname == "SIGTERMException"
    return evidence.signal == signal.SIGTERM or evidence.exit_code in (-signal.SIGTERM, 128 + signal.SIGTERM)


def _is_shadow(evidence: Evidence, others: list[Evidence]) -> bool:
    """Whether an exit only follows a rank's recorded exception: its own, or that of a rank of the same agent.

    A killed agent does not follow from its ranks' lost connections: these follow from it.
    """
    if evidence.kind not in ("exit", "signal") or evidence.error is not None:
        return False
    return any(
        other.error is not None
        and not (evidence.kind == "signal" and is_communication(other))
        and other.node_rank == evidence.node_rank
        and (other.rank == evidence.rank if evidence.rank is not None else other.rank is not None)
        for other in others
    )


def _who(cause: Evidence, record: JobRecord) -> str:
    task = record.tasks[cause.node_rank] if cause.node_rank < len(record.tasks) else None
    worker = (task.worker_name or task.worker_id) if task else f"Node {cause.node_rank}"
    return worker if cause.rank is None else f"Rank {cause.rank} on {worker}"


def _error(error: ErrorRecord) -> str:
    return f"{error.qualname}: {error.message}" if error.message else error.qualname


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"
