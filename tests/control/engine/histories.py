"""Whatever happens in whatever order: no device twice, no job stuck or lost from sight, no illegal move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpulayer.control.engine import lockstep, transitions
from gpulayer.control.engine.leases import Hearing, lost_workers
from gpulayer.control.engine.moves import Step
from gpulayer.spec.calls import Go
from gpulayer.spec.causes import Evidence
from gpulayer.spec.events import Event
from gpulayer.spec.records import JobRecord, Stop, TaskRecord, WorkerRecord
from gpulayer.spec.reports import RankArrived, RankOutcome, Report, TaskEnded, TaskFault, TaskWaits
from gpulayer.spec.states import JobState, Reason, TaskState, WorkerState, may_move
from tests.control.engine import given
from tests.control.engine.keeping import InMemory, Keeping, Key, key_of
from tests.control.engine.simulated import LEASE_S, Worker

BEAT_S = 10.0
ONE = {"accelerator": "cuda", "gpu_count": 1}
SPECS: dict[str, Any] = {
    "command": given.command(),
    "quick": given.command(timeout_s=20.0, queue_timeout_s=40.0, priority=70),
    "one gpu": given.command(resources=ONE, max_attempts=3, on_unschedulable="queue"),
    "gang": given.gang(2, 1, resources=ONE, timeout_s=50.0),
    "wide gang": given.gang(3, 1, priority=60, on_unschedulable="queue"),
    "script": given.gang(2, 2, calls=given.CALLS),
    "script on one": given.gang(1, 1, calls=given.CALLS, timeout_s=500.0),
    "never": given.gang(9, 1),
}
Act = Callable[[], None]


def fleet() -> list[Worker]:
    """Two workers that share a machine with two devices, one with a device of its own, one without."""
    shared = given.gpus("m", 2)
    able = [
        given.worker("a", machine="m", devices=shared),
        given.worker("b", machine="m", devices=shared, slots=2),
        given.worker("c", machine="n", devices=given.gpus("n", 1)),
        given.worker("d"),
    ]
    return [Worker(each.info.model_copy(update={"incarnation": "0"})) for each in able]


class Histories(RuleBasedStateMachine):
    """Jobs, workers and callers in any order, with reports that come late, twice or of passed attempts."""

    def __init__(self) -> None:
        super().__init__()
        self.keep: Keeping = self.open()
        self.now = 1000.0
        self.hearing = Hearing.begin(self.now)
        self.fleet = {each.info.id: each for each in fleet()}
        self.old_letters: list[Report] = []
        self.drained: set[str] = set()
        self.ended: dict[str, JobRecord] = {}
        self._checked: dict[str, JobRecord] = {}
        self.incarnations = 0
        for each in self.fleet.values():
            each.heard_at = self.now
            self.keep.register(each.info, self.now)

    def open(self) -> Keeping:
        return InMemory()

    @initialize(ending=st.sampled_from(["all is mended", "nobody comes back", "what hangs goes on hanging"]))
    def how_it_will_end(self, ending: str) -> None:
        self.ending = ending

    # --- what the plane does -------------------------------------------------------------------------------------

    def hear(self, report: Report) -> None:
        """Take a report, unless it is of an incarnation that another has fenced; hearing it once more changes nothing."""
        standing = self._workers().get(report.worker_id)
        if standing is None or standing.info.incarnation != report.incarnation:
            return
        key = (report.job_id, report.attempt, report.node_rank)
        release = key if isinstance(report, TaskEnded) else None
        before = self.keep.job(report.job_id)
        if report.attempt != before.attempt:
            assert transitions.advance(before, report, self.now) == Step(before)
        self.keep.change(report.job_id, lambda record: transitions.advance(record, report, self.now), release)
        once = self.keep.job(report.job_id)
        assert transitions.advance(once, report, self.now + 1.0) == Step(once)

    def tick(self) -> None:
        self.hearing = self.hearing.tick(self.now, BEAT_S)
        since = self.hearing.hearing_since
        for record in self.keep.jobs():
            self.keep.change(record.id, lambda record: transitions.tick(record, self.now, since))
            after = self.keep.job(record.id)
            assert transitions.tick(after, self.now, since) == Step(after)
        serving = {each.info.id: each for each in self._workers().values() if each.state in ("online", "draining")}
        heard = {name: each.heard_at for name, each in serving.items()}
        for name in lost_workers(heard, since, self.now, LEASE_S):
            self._move(serving[name], WorkerState.LOST)
        for name in [name for name, each in self._workers().items() if each.state == "lost"]:
            self._lose_tasks(name)

    def _move(self, worker: WorkerRecord, state: WorkerState) -> None:
        if worker.state != state:
            assert may_move(WorkerState(worker.state), state)
            self.keep.set_state(worker.info.id, state)

    def _lose_tasks(self, worker_id: str) -> None:
        for task in self.keep.held():
            if task.worker_id == worker_id and not task.state.terminal:
                self._lose(key_of(task))

    def _lose(self, key: Key, release: Key | None = None) -> None:
        job_id, attempt, node_rank = key

        def decide(record: JobRecord) -> Step:
            if record.attempt != attempt:
                return Step(record)
            return transitions.lose_tasks(record, (node_rank,), Reason.WORKER_LOST, self.now)

        self.keep.change(job_id, decide, release)

    def _workers(self) -> dict[str, WorkerRecord]:
        return {each.info.id: each for each in self.keep.workers()}

    # --- what workers do -----------------------------------------------------------------------------------------

    def poll(self, worker: Worker) -> None:
        """Ask for orders; a worker that was removed, or whose identity another took, begins anew."""
        standing = self._workers().get(worker.info.id)
        if standing is None:
            worker.abandon(list(worker.tasks))
            self._begin_anew(worker)
            return
        self.keep.heard(worker.info.id, self.now)
        if standing.state == "lost":
            self._move(standing, WorkerState.DRAINING if worker.info.id in self.drained else WorkerState.ONLINE)
        worker.obey(self.keep.orders(worker.info.id), self.now)

    def _begin_anew(self, worker: Worker) -> None:
        self.incarnations += 1
        worker.restart(str(self.incarnations))
        worker.heard_at = self.now
        self.drained.discard(worker.info.id)
        self.keep.register(worker.info, self.now)

    def deliver(self, worker: Worker, at: int = 0) -> None:
        letter = worker.letters.pop(at % len(worker.letters))
        self.old_letters.append(letter)
        self.hear(letter)

    def tasks(self) -> list[tuple[Worker, Key]]:
        return [(worker, key) for worker in self.fleet.values() if worker.alive for key in worker.tasks]

    # --- what may happen -----------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(sorted(SPECS)))
    def submit(self, kind: str) -> None:
        self.keep.add(JobRecord(id=f"job-{len(self.keep.jobs())}", spec=SPECS[kind]), self.now)

    @rule()
    def schedule(self) -> None:
        self.keep.schedule(self.now)

    @rule(times=st.integers(1, 8))
    def everyone_works(self, times: int) -> None:
        """The usual: orders are heard and obeyed, reports arrive in order."""
        for _ in range(times):
            for worker in self.fleet.values():
                if worker.reachable:
                    self.poll(worker)
                    for key in list(worker.tasks):
                        worker.act(key)
                    while worker.letters:
                        self.deliver(worker)

    @rule(data=st.data())
    def one_works(self, data: st.DataObject) -> None:
        worker = self._draw_worker(data)
        if worker.reachable:
            self.poll(worker)
        for key in list(worker.tasks):
            worker.act(key)

    @precondition(lambda self: self._with_letters())
    @rule(data=st.data(), at=st.integers(0, 9))
    def a_letter_arrives(self, data: st.DataObject, at: int) -> None:
        self.deliver(data.draw(st.sampled_from(self._with_letters())), at)

    @precondition(lambda self: self.old_letters)
    @rule(data=st.data())
    def an_old_letter_arrives_again(self, data: st.DataObject) -> None:
        self.hear(data.draw(st.sampled_from(self.old_letters)))

    @precondition(lambda self: self.tasks())
    @rule(data=st.data())
    def something_fails(self, data: st.DataObject) -> None:
        worker, key = data.draw(st.sampled_from(self.tasks()))
        report, fields = data.draw(st.sampled_from(_troubles(worker.tasks[key].order)))
        worker.fail(key, report, **fields)

    @precondition(lambda self: self.tasks())
    @rule(data=st.data())
    def a_task_hangs(self, data: st.DataObject) -> None:
        worker, key = data.draw(st.sampled_from(self.tasks()))
        worker.tasks[key].hangs = True

    @rule(data=st.data(), what=st.sampled_from(["crash", "restart", "cut", "heal", "drain", "remove"]))
    def a_worker_comes_or_goes(self, data: st.DataObject, what: str) -> None:
        worker = self._draw_worker(data)
        standing = self._workers().get(worker.info.id)
        if what == "crash":
            worker.crash()
        elif what == "restart":
            worker.crash()
            self._begin_anew(worker)
        elif what in ("cut", "heal"):
            worker.cut = what == "cut"
        elif what == "drain" and standing is not None and standing.state == "online":
            self.drained.add(worker.info.id)
            self._move(standing, WorkerState.DRAINING)
        elif what == "remove" and standing is not None and not worker.alive:  # who removes it knows that nothing of it runs
            self._remove(worker)

    @precondition(lambda self: self.keep.jobs())
    @rule(data=st.data(), reason=st.sampled_from([Reason.CANCELLED_BY_USER, Reason.CALLER_GONE]), kill=st.booleans())
    def cancel(self, data: st.DataObject, reason: Reason, kill: bool) -> None:
        self._cancel(self._draw_job(data), reason, kill)

    @precondition(lambda self: self.keep.jobs())
    @rule(data=st.data(), say=st.sampled_from(["go", "state", "farewell"]))
    def the_caller_speaks(self, data: st.DataObject, say: str) -> None:
        job = self._draw_job(data)
        if self.keep.job(job).spec.calls is not None:
            {"go": self._let_go, "state": self._send_state, "farewell": self._farewell}[say](job)

    @rule(beats=st.integers(1, 12))
    def time_passes(self, beats: int) -> None:
        for _ in range(beats):
            self._time(BEAT_S)
            for worker in self.fleet.values():
                if worker.reachable:
                    self.poll(worker)
            self.tick()

    @rule(seconds=st.sampled_from([0.1, 25.0, 130.0, 2000.0]))
    def time_jumps(self, seconds: float) -> None:
        self._time(seconds)
        self.tick()

    @rule()
    def the_plane_is_killed(self) -> None:
        self.keep.reopen()
        self.hearing = Hearing.begin(self.now)

    @precondition(lambda self: self.keep.jobs())
    @rule(data=st.data())
    def two_act_at_once(self, data: st.DataObject) -> None:
        """Between one's reading and its writing, another reads and writes."""
        acts: dict[str, Act] = {
            "schedule": self.schedule,
            "tick": self.tick,
            "cancel": lambda: self._cancel(self._draw_job(data), Reason.CANCELLED_BY_USER, False),
            "worker": lambda: self.poll(self.fleet["wkr-a"]) if self.fleet["wkr-a"].reachable else None,
        }
        for worker in self._with_letters():
            acts[f"letter of {worker.info.id}"] = lambda worker=worker: self.deliver(worker) if worker.letters else None
        names = st.sampled_from(sorted(acts))
        first, second = acts[data.draw(names)], acts[data.draw(names)]
        self.keep.meanwhile = second
        first()
        self.keep.meanwhile = None

    # --- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def all_is_well(self) -> None:
        self._no_device_is_leased_twice(self.keep.held())
        for worker in self.keep.workers():
            assert len(worker.busy) <= worker.info.slots
        for record in self.keep.jobs():
            if self._checked.get(record.id) != record:
                self._checked[record.id] = record
                _has_a_live_task_or_a_reason(record)
                _is_told_by_its_events(record, self.keep.events(record.id))
            if record.state.terminal:
                assert self.ended.setdefault(record.id, record) == record

    def _no_device_is_leased_twice(self, held: list[TaskRecord]) -> None:
        leased = Counter((task.machine, device.uuid) for task in held for device in task.devices)
        assert all(count == 1 for count in leased.values()), leased
        used = Counter(
            (worker.info.capabilities.machine, device.uuid)
            for worker, key in self.tasks()
            for device in worker.tasks[key].order.devices
        )
        assert all(count == 1 for count in used.values()), used

    # --- the end -------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Once nothing more is asked, every job ends, and all slots and devices are free but those of hung tasks."""
        if not hasattr(self, "ending"):
            return
        for worker in self.fleet.values():
            self._meet_its_end(worker)
        for turn in range(60 + 170):  # a hung upload is given up after 1500 s
            if turn == 60:  # these wait for what won't come
                for record in self.keep.jobs():
                    self._cancel(record.id, Reason.CANCELLED_BY_USER, False)
            if self._is_over():
                break
            self._last_turn()
        assert self._is_over(), [record for record in self.keep.jobs() if not record.state.terminal]
        for worker in list(self.fleet.values()):
            if not worker.alive and worker.info.id in self._workers():
                self._remove(worker)
        assert {key_of(task) for task in self.keep.held()} <= self._hung()
        assert {key for worker in self.keep.workers() for key in worker.busy} <= self._hung()
        self.all_is_well()

    def _meet_its_end(self, worker: Worker) -> None:
        if self.ending == "nobody comes back":
            worker.crash()
        elif not worker.alive or worker.info.id in self.drained:
            worker.crash()
            self._begin_anew(worker)
        worker.cut = False
        for task in worker.tasks.values():
            task.hangs = task.hangs and self.ending == "what hangs goes on hanging"

    def _hung(self) -> set[Key]:
        return {key for worker, key in self.tasks() if worker.tasks[key].hangs}

    def _last_turn(self) -> None:
        self._time(BEAT_S)
        for record in self.keep.jobs():
            if record.spec.calls is not None:
                self._send_state(record.id)
                self._farewell(record.id)
        self.tick()
        self.schedule()
        self.everyone_works(3)

    def _is_over(self) -> bool:
        living = {worker.info.id: worker for worker in self.fleet.values() if worker.alive}
        done = all(record.state.terminal for record in self.keep.jobs())
        quiet = not any(worker.letters for worker in living.values())
        left = {key_of(task) for task in self.keep.held() if task.worker_id in living} | {key for _, key in self.tasks()}
        return done and quiet and left <= self._hung()

    # -------------------------------------------------------------------------------------------------------------

    def _time(self, seconds: float) -> None:
        self.now += seconds
        for worker in self.fleet.values():
            if not worker.reachable:
                worker.look_at_lease(self.now)

    def _remove(self, worker: Worker) -> None:
        self.keep.forget(worker.info.id)
        for task in self.keep.held():
            if task.worker_id == worker.info.id:
                self._lose(key_of(task), release=key_of(task))

    def _cancel(self, job: str, reason: Reason, kill: bool) -> None:
        wish = Stop(reason=reason, grace_s=30.0, kill=kill)
        self.keep.change(job, lambda record: transitions.request_stop(record, wish, self.now))

    def _let_go(self, job: str) -> None:
        """The caller makes its next call, once the one before has settled."""
        made = [view for view in self.keep.job(job).calls if view.go]
        if all(view.settled for view in made):
            go = Go(fingerprint=given.fingerprint(len(made)), state_digest="d" if len(made) % 2 else "")
            self.keep.change(job, lambda record: lockstep.go(record, go, self.now))

    def _send_state(self, job: str) -> None:
        for call in [view.call for view in self.keep.job(job).calls if view.needs_state]:
            self.keep.change(job, lambda record, call=call: lockstep.send_state(record, call, given.BLOB, self.now))

    def _farewell(self, job: str) -> None:
        self.keep.change(job, lambda record: lockstep.farewell(record, self.now))

    def _with_letters(self) -> list[Worker]:
        return [worker for worker in self.fleet.values() if worker.letters and not worker.cut]

    def _draw_worker(self, data: st.DataObject) -> Worker:
        return self.fleet[data.draw(st.sampled_from(sorted(self.fleet)))]

    def _draw_job(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([record.id for record in self.keep.jobs()]))


def _has_a_live_task_or_a_reason(record: JobRecord) -> None:
    live = [task for task in record.tasks if not task.state.terminal]
    assert bool(live) == (record.state is JobState.RUNNING)
    if record.state.terminal:
        assert record.reason is not None
        assert record.sentence
        assert record.ended_at is not None
        assert record.phase is None


def _is_told_by_its_events(record: JobRecord, events: list[Event]) -> None:
    assert [event.seq for event in events] == list(range(1, record.events + 1))
    assert events[-1].kind == "ended" or not record.state.terminal
    assert given.replayed(events) == given.standing(record)


def _troubles(order: Any) -> list[tuple[Any, dict[str, Any]]]:
    """What may go wrong with a task, as its worker would tell it."""
    node, rank = order.node_rank, order.node_rank * order.procs_per_worker
    closed = given.error(rank, communication=True)
    killed = Evidence(kind="signal", node_rank=node, rank=rank, signal=9)
    lost_peer = Evidence(kind="communication", node_rank=node, rank=rank, error=closed)
    elsewhere = given.arrival(rank, 0, function="test")
    return [
        (TaskFault, {"evidence": killed}),
        (TaskFault, {"evidence": lost_peer}),
        (TaskWaits, {"sentence": "a device is held by another home"}),
        (TaskEnded, {"state": TaskState.FAILED, "reason": Reason.EXITED, "exit_code": 1}),
        (TaskEnded, {"state": TaskState.FAILED, "reason": Reason.SIGNALLED, "exit_code": -9, "evidence": (killed,)}),
        (TaskEnded, {"state": TaskState.TIMED_OUT, "reason": Reason.TIMEOUT}),
        (TaskEnded, {"state": TaskState.SUCCEEDED, "reason": Reason.DONE}),
        (RankOutcome, {"outcome": given.outcome(rank, 0, "failed", given.error(rank))}),
        (RankArrived, {"arrival": elsewhere}),
        (RankArrived, {"arrival": given.arrival(rank, 1, left=True)}),
    ]
