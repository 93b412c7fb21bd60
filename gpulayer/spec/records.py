"""Jobs, tasks and workers as the plane records them: the values that the engine takes and returns."""

from __future__ import annotations

from pydantic import Field

from gpulayer.spec.base import Record
from gpulayer.spec.calls import CallView, Progress
from gpulayer.spec.causes import Evidence
from gpulayer.spec.job import Job, Processes, shape
from gpulayer.spec.ranks import Ranks
from gpulayer.spec.states import JobState, Phase, Reason, TaskState
from gpulayer.spec.workers import Device, WorkerInfo


class Stop(Record):
    """The wish that an attempt's processes end; a later one may only be harder.

    The grace counts from ``at``. ``kill`` says that it is over; ``grace_s`` is then how long it was.
    """

    reason: Reason
    sentence: str = ""
    grace_s: float = 5.0
    kill: bool = False
    at: float = 0.0


ALL_PAIRS_UP_TO = 16
"""In a gang of so many nodes each proves before the start that it reaches all others; in a larger one only node 0."""


class RendezvousPoint(Record):
    """Where a node answers: for torchrun's agents to meet, or to prove that it is reached; ``nonce`` proves who answers."""

    address: str
    port: int
    nonce: str


class TaskRecord(Record):
    """One worker's share of an attempt."""

    job_id: str
    attempt: int
    node_rank: int
    worker_id: str
    worker_name: str = ""
    machine: str = ""
    state: TaskState = TaskState.ASSIGNED
    phase: Phase = Phase.PREPARING
    reason: Reason | None = None
    sentence: str = ""
    devices: tuple[Device, ...] = ()
    exit_code: int | None = None
    preflight: RendezvousPoint | None = None
    """Where it answers the other nodes before the start."""
    assigned_at: float = 0.0
    running_at: float | None = None
    uploading_at: float | None = None
    """When no process of it was left and the storing of its outputs began."""
    ended_at: float | None = None


class JobRecord(Record):
    """A job with its latest attempt, as one value. ``version`` counts the writes: every write is a compare-and-set on it."""

    id: str
    spec: Job
    owner: str | None = None
    """The process that submitted it (embedded homes)."""
    state: JobState = JobState.QUEUED
    phase: Phase | None = None
    reason: Reason | None = None
    sentence: str = ""
    """For people: made of state, reason and facts."""
    attempt: int = 0
    """0 until first placed; tasks are those of this attempt."""
    procs_per_worker: int = 1
    """Of this attempt: where the job says ``auto``, placement has made it a number."""
    tasks: tuple[TaskRecord, ...] = ()
    rendezvous: RendezvousPoint | None = None
    stop: Stop | None = None
    evidence: tuple[Evidence, ...] = ()
    cause: Evidence | None = None
    """The first true cause, once the job has ended badly."""
    calls: tuple[CallView, ...] = ()
    caller_ended: bool = False
    hold_since: float | None = None
    ranks: Ranks = Ranks()
    progress: Progress | None = None
    why: tuple[str, ...] = ()
    """Why it waits: the scheduler's sentences, or which ranks the others wait for."""
    created_at: float = 0.0
    queued_at: float = 0.0
    """When it last joined the queue: later than ``created_at`` for a new attempt."""
    placed_at: float | None = None
    gated_at: float | None = None
    """When all its tasks were ready."""
    running_at: float | None = None
    ended_at: float | None = None
    version: int = 0
    events: int = 0
    """How many events it has."""

    @property
    def world_size(self) -> int:
        return len(self.tasks) * self.procs_per_worker

    @property
    def shape(self) -> tuple[int, Processes]:
        """Workers, and processes on each: as asked for until it is placed, then as they are."""
        workers, processes = shape(self.spec)
        return workers, self.procs_per_worker if self.attempt else processes


class JobSize(Record):
    """What a job takes of its plane's disk, in bytes: its files and source (others may have the same), and its lines."""

    files: int
    lines: int


class WorkerRecord(Record):
    """A registered worker. ``busy`` holds the (job_id, attempt, node_rank) of which processes may live: lost ones count."""

    info: WorkerInfo
    state: str = "online"
    """online, draining, lost, gone."""
    registered_at: float = 0.0
    heard_at: float = 0.0
    busy: tuple[tuple[str, int, int], ...] = ()
    leased: tuple[str, ...] = ()
    """UUIDs of devices that tasks on it hold."""
    busy_until: float | None = None
    """The latest time at which all its tasks must have ended by their timeout; None when unknown."""


class Snapshot(Record):
    """What the scheduler looks at: queued jobs, and all workers that are online or draining.

    A worker in another state counts only for the devices that its tasks still hold on its machine.
    """

    queued: tuple[JobRecord, ...] = ()
    workers: tuple[WorkerRecord, ...] = ()


class PlacementChoice(Record):
    """One job's gang, chosen in one step: node rank r runs on ``workers[r]`` with ``devices[r]``."""

    job_id: str
    workers: tuple[str, ...]
    devices: tuple[tuple[Device, ...], ...]
    procs_per_worker: int


class WorkerVerdict(Record):
    """What one worker answered to one job. ``sentences`` is empty when it could take it now."""

    worker_id: str
    worker_name: str = ""
    compatible: bool
    """Whether it could ever run it."""
    sentences: tuple[str, ...] = ()


class Waiting(Record):
    """Why a job was not placed. ``never`` says that no registered group of workers could ever run it."""

    job_id: str
    never: bool
    sentences: tuple[str, ...]


class Plan(Record):
    """What the scheduler decided."""

    placements: tuple[PlacementChoice, ...] = ()
    waiting: tuple[Waiting, ...] = ()


class Explanation(Record):
    """The answer to "why does it wait": per-worker reasons and the nearest change that would let it run.

    ``never`` says that no registered group of workers could ever run it.
    """

    job_id: str
    sentence: str
    never: bool = False
    verdicts: tuple[WorkerVerdict, ...] = ()
    nearest: str = ""


class Peer(Record):
    """A node of an attempt as the others see it; ``preflight`` is where it answers, None when it does not."""

    node_rank: int
    worker_name: str
    preflight: RendezvousPoint | None = None


class Order(Record):
    """What a worker should be doing about one task: level-triggered, so hearing it twice is harmless."""

    job_id: str
    attempt: int
    node_rank: int
    spec: Job
    procs_per_worker: int
    num_workers: int
    devices: tuple[Device, ...] = ()
    machine_rank: int = 0
    """The lowest node rank of this attempt on the same machine: it tends the shared work folder."""
    launch: bool = False
    """All nodes are ready: start (rank 0's worker takes a port and publishes it when ``rendezvous`` is None)."""
    rendezvous: RendezvousPoint | None = None
    peers: tuple[Peer, ...] = ()
    """All nodes, once they are ready, in a gang that is small enough for each to dial each."""
    still_after_s: float | None = None
    """Others wait for ranks of this node: say which show no sign of life for so long."""
    stop: Stop | None = None
    calls: tuple[CallView, ...] = ()
    caller_ended: bool = False


class Orders(Record):
    """All orders for one worker; ``version`` goes back with the next question."""

    version: int
    orders: tuple[Order, ...] = Field(default=())
    draining: bool = False
    fenced: bool = False
    """A newer incarnation took this identity: stop everything and leave."""
    removed: bool = False
    """Of one that is fenced: not a newer incarnation but an admin has ended it."""
    lease_s: float = 90.0
    """A worker that could not ask for so long ends its tasks: the plane has given them up."""
