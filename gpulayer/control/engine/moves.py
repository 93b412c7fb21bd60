"""Steps: a job's record after a decision, with the events that tell of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpulayer.spec.events import Event
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.spec.states import JobState, Reason, TaskState, may_move


class IllegalMove(AssertionError):
    """The engine tried a move that the table of ``spec.states`` doesn't know: a fault of ours, never of a report."""


@dataclass(frozen=True)
class Step:
    """A record after a decision, and the events not yet written. What says nothing new leaves the record as it was."""

    record: JobRecord
    events: tuple[Event, ...] = ()

    def change(self, **fields: Any) -> Step:
        """Replace fields of the record; state is not one of them (see ``move``)."""
        assert "state" not in fields
        return Step(self.record.model_copy(update=fields), self.events)

    def change_task(self, node_rank: int, **fields: Any) -> Step:
        """Replace fields of one task; state is not one of them (see ``move_task``)."""
        assert "state" not in fields
        return self._with_task(self.record.tasks[node_rank].model_copy(update=fields))

    def tell(self, kind: str, now: float, *, node_rank: int | None = None, **facts: Any) -> Step:
        """Append an event, numbered after the record's last."""
        record = self.record
        seq = record.events + 1
        event = Event(job_id=record.id, seq=seq, at=now, kind=kind, attempt=record.attempt, node_rank=node_rank, facts=facts)
        return Step(record.model_copy(update={"events": seq}), (*self.events, event))

    def move(self, state: JobState, reason: Reason | None, sentence: str = "") -> Step:
        """Move the job, as the table of legal moves allows."""
        old = self.record.state
        if not may_move(old, state):
            raise IllegalMove(f"{self.record.id}: {old} can't become {state}")
        changed = {"state": state, "reason": reason, "sentence": sentence}
        return Step(self.record.model_copy(update=changed), self.events)

    def move_task(self, node_rank: int, state: TaskState, **fields: Any) -> Step:
        """Move one task, as the table of legal moves allows."""
        task = self.record.tasks[node_rank]
        if not may_move(task.state, state):
            raise IllegalMove(f"{self.record.id} node {node_rank}: {task.state} can't become {state}")
        return self._with_task(task.model_copy(update={"state": state, **fields}))

    def _with_task(self, task: TaskRecord) -> Step:
        tasks = self.record.tasks
        changed = (*tasks[: task.node_rank], task, *tasks[task.node_rank + 1 :])
        return Step(self.record.model_copy(update={"tasks": changed}), self.events)
