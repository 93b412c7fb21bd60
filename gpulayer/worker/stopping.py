"""Which end a task comes to; pure."""

from __future__ import annotations

from gpulayer.spec.base import Record
from gpulayer.spec.causes import Evidence
from gpulayer.spec.records import Stop
from gpulayer.spec.states import Reason, TaskState

_OF_EVIDENCE = {
    "exception": Reason.USER_ERROR,
    "communication": Reason.PEER_FAILED,
    "signal": Reason.SIGNALLED,
    "exit": Reason.EXITED,
    "preparation": Reason.PREPARATION_FAILED,
    "rendezvous": Reason.RENDEZVOUS_FAILED,
    "diverged": Reason.CALLS_DIVERGED,
    "straggler": Reason.STRAGGLER,
}
_OF_STOP = {Reason.TIMEOUT: TaskState.TIMED_OUT, Reason.WORKER_LOST: TaskState.LOST}
_TERMINATED = 128 + 15


class Ending(Record):
    """How a task ended, as the plane is told."""

    state: TaskState
    reason: Reason
    exit_code: int | None
    sentence: str = ""

    def __str__(self) -> str:
        return f"{self.state} ({self.reason}){': ' if self.sentence else ''}{self.sentence}"


def of_task(
    *,
    stop: Stop | None,
    evidence: tuple[Evidence, ...],
    exit_code: int | None,
    well: bool,
    failed_call: bool,
    sentence: str = "",
) -> Ending:
    """Choose the end of a task whose processes are gone.

    ``well`` says that every rank said goodbye with 0; ``exit_code`` is the agent's, where 0 is as good unless it was told
    to stop. Evidence of its own beats a stop that came after it, and the rank's exit code stands for torchrun's 1.
    """
    first = next((found for found in evidence if found.kind != "communication"), evidence[0] if evidence else None)
    if first is not None and not (stop is not None and first.kind == "communication"):
        code = first.exit_code if first.exit_code is not None else exit_code
        return _ending(TaskState.FAILED, _OF_EVIDENCE[first.kind], code, f"{first.sentence} {sentence}".strip())
    if failed_call:
        return _ending(TaskState.FAILED, Reason.USER_ERROR, 1, sentence)
    if well or (exit_code == 0 and stop is None):
        return _ending(TaskState.SUCCEEDED, Reason.DONE, 0, sentence)
    if stop is not None:
        code = _TERMINATED if exit_code in (None, 1) else _shell(exit_code)
        return _ending(_OF_STOP.get(stop.reason, TaskState.CANCELLED), stop.reason, code, sentence or stop.sentence)
    return _ending(TaskState.FAILED, Reason.EXITED, _shell(exit_code), sentence)


def _ending(state: TaskState, reason: Reason, exit_code: int | None, sentence: str = "") -> Ending:
    return Ending(state=state, reason=reason, exit_code=exit_code, sentence=sentence)


def _shell(exit_code: int | None) -> int | None:
    """A signal as shells count it."""
    return 128 - exit_code if exit_code is not None and exit_code < 0 else exit_code
