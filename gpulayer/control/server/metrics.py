"""What a server counts of itself, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpulayer.control.server.hosted import HostedPlane
from gpulayer.control.store import tallies
from gpulayer.spec.states import JobState, WorkerState

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Metrics:
    """The counters of one server, and what its plane can be asked when they are read."""

    def __init__(self, plane: HostedPlane) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_OfPlane(plane))
        labels = ("method", "route", "status")
        self._requests = Counter("gpulayer_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "gpulayer_request_seconds", "Time to answer.", ("route",), registry=self._registry, buckets=_SECONDS
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all of them in Prometheus's text format."""
        return generate_latest(self._registry)


class _OfPlane(Collector):
    def __init__(self, plane: HostedPlane) -> None:
        self._plane = plane

    def collect(self) -> Iterator[Metric]:
        with self._plane.store.read() as db:
            jobs, workers = tallies.jobs_by_state(db), tallies.workers_by_state(db)
        yield _by_state("gpulayer_jobs", "Jobs.", {state.value: jobs.get(state, 0) for state in JobState})
        yield _by_state("gpulayer_workers", "Workers.", {state.value: workers.get(state, 0) for state in WorkerState})
        yield GaugeMetricFamily("gpulayer_queue_length", "Jobs that wait for workers.", jobs.get(JobState.QUEUED, 0))
        yield GaugeMetricFamily("gpulayer_waiting", "Questions that wait for something to change.", self._plane.waits.waiting)
        yield CounterMetricFamily("gpulayer_log_lines", "Lines stored.", self._plane.lines_stored)
        yield CounterMetricFamily("gpulayer_late_ticks", "Times it could not hear for a while.", self._plane.silence.late)

    def describe(self) -> list[Metric]:
        """Nothing is known before the plane is asked."""
        return []


def _by_state(name: str, told: str, counts: dict[str, int]) -> Metric:
    found = GaugeMetricFamily(name, told, labels=["state"])
    for state, count in counts.items():
        found.add_metric([state], count)
    return found
