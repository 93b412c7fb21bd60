"""From what was seen of ranks and agents to evidence of a failure; pure."""

from __future__ import annotations

import signal

from gpulayer.spec.causes import Evidence
from gpulayer.spec.rank_messages import Left, Recording


def of_left(node_rank: int, rank: int, left: Left, at: float) -> Evidence | None:
    """Return what a rank's goodbye tells of a failure: the script raised, or asked for an exit code."""
    if left.exit_code == 0:
        return None
    error = left.error
    if error is None:
        return _exited(node_rank, rank, left.exit_code, at)
    return Evidence(
        kind="communication" if error.communication else "exception",
        node_rank=node_rank,
        rank=rank,
        at=at,
        exit_code=left.exit_code,
        sentence=f"Rank {rank} raised {error.qualname}: {error.message}".rstrip(": "),
        error=error.record(rank),
    )


def of_exit(node_rank: int, rank: int, exit_code: int, at: float, *, owes_goodbye: bool = False) -> Evidence | None:
    """Return what the end of a rank that said no goodbye tells; ``exit_code`` is negative for a signal.

    A rank that ``owes_goodbye`` (its script meets a caller's calls) broke off even with exit code 0.
    """
    if exit_code == 0 and not owes_goodbye:
        return None
    if exit_code >= 0:
        return _exited(node_rank, rank, exit_code, at)
    return Evidence(
        kind="signal",
        node_rank=node_rank,
        rank=rank,
        at=at,
        exit_code=128 - exit_code,
        signal=-exit_code,
        sentence=f"Rank {rank} was killed by {name_of(-exit_code)}.",
    )


def of_agent(node_rank: int, what: str, exit_code: int, at: float, *, met: bool) -> Evidence | None:
    """Return what the agent's (or command's) own end tells where no rank told more; ``met`` says that ranks came up."""
    if exit_code == 0:
        return None
    if exit_code < 0:
        sentence = f"{what} on node {node_rank} was killed by {name_of(-exit_code)}."
        return Evidence(
            kind="signal", node_rank=node_rank, at=at, exit_code=128 - exit_code, signal=-exit_code, sentence=sentence
        )
    if met:
        sentence = f"{what} exited with code {exit_code}."
        return Evidence(kind="exit", node_rank=node_rank, at=at, exit_code=exit_code, sentence=sentence)
    sentence = f"{what} on node {node_rank} ended with code {exit_code} before any of its ranks started."
    return Evidence(kind="rendezvous", node_rank=node_rank, at=at, exit_code=exit_code, sentence=sentence)


def of_guard(node_rank: int) -> Evidence:
    """Return the evidence of a guard that was killed, and its task's processes with it."""
    sentence = f"The guard of node {node_rank} was killed."
    number = signal.SIGKILL
    return Evidence(kind="signal", node_rank=node_rank, signal=number, exit_code=128 + number, sentence=sentence)


def name_of(number: int) -> str:
    """Return SIGKILL for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def is_echo(found: Evidence, *, terminated: bool, killed: bool) -> bool:
    """Say whether an end is only what SIGTERM or SIGKILL bring about that we, or torchrun after a first failure, sent."""
    if found.signal == signal.SIGKILL:
        return killed
    return terminated and (found.signal == signal.SIGTERM or found.exit_code == 128 + signal.SIGTERM)


def is_broken_off(outcome: Recording) -> bool:
    """Say whether a call ended as SIGTERM or an interrupt end one: by no fault of its own, where somebody stopped it."""
    terminated = outcome.error is not None and outcome.error.qualname == "SIGTERMException"
    return outcome.status == "interrupted" or terminated


def _exited(node_rank: int, rank: int, exit_code: int, at: float) -> Evidence:
    sentence = f"Rank {rank} exited with code {exit_code}."
    return Evidence(kind="exit", node_rank=node_rank, rank=rank, at=at, exit_code=exit_code, sentence=sentence)
