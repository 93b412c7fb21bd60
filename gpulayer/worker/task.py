"""One task from its first order to its last report: gated, run, told, cleared up."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gpulayer.errors import PreparationFailed
from gpulayer.spec.causes import Evidence, EvidenceKind
from gpulayer.spec.records import Order, Stop
from gpulayer.spec.reports import TaskEnded
from gpulayer.spec.states import Reason
from gpulayer.worker import clearing, layout, notes, secrets, stopping, torchrun
from gpulayer.worker.addresses import LOOPBACK
from gpulayer.worker.faults import Faults
from gpulayer.worker.gating import Gating
from gpulayer.worker.guarded import Guarded
from gpulayer.worker.lease import Lease
from gpulayer.worker.patience import PatientPlane
from gpulayer.worker.ports import Unreachable
from gpulayer.worker.reporter import Reporter
from gpulayer.worker.running import Running
from gpulayer.worker.site import Site
from gpulayer.worker.stopping import Ending
from gpulayer.worker.wishes import Stopped, Wishes

_log = logging.getLogger(__name__)


class Task:
    """Drives one task in a thread of its own; its other methods may be called from any other."""

    def __init__(
        self, order: Order, site: Site, plane: PatientPlane, on_end: Callable[[Task], None], lease: Lease | None = None
    ) -> None:
        self._site = site
        self._plane = plane
        self._on_end = on_end
        self._where = layout.folders(site.home, site.shared, order)
        self._wishes = Wishes(order)
        self._reporter = Reporter(plane, site.me, order)
        self._faults = Faults(self._wishes, self._reporter)
        self._lease = lease
        self._guard: Guarded | None = None
        self._running: Running | None = None
        self._end: Ending | None = None
        self._thread = threading.Thread(target=self._run, name=f"gpulayer-{order.job_id}.{order.node_rank}", daemon=True)
        self._thread.start()

    @property
    def order(self) -> Order:
        return self._wishes.order

    @property
    def end(self) -> Ending | None:
        """How it ended, once it did."""
        return self._end

    def update(self, order: Order) -> None:
        """Take the newest order."""
        self._wishes.take(order)
        if self._running is not None:
            self._running.update(order)

    def renew(self) -> None:
        """Take note that the plane counts on the worker for longer."""
        if self._guard is not None and self._lease is not None:
            self._guard.lease(self._lease.until)

    def stop(self, stop: Stop) -> None:
        """End the task; the first reason stays, a later stop may only be harder."""
        self._wishes.end(stop)

    def abandon(self, sentence: str = "The plane gave this task up.") -> None:
        """Kill it at once: nobody waits for it any more."""
        self.stop(Stop(reason=Reason.WORKER_LOST, sentence=sentence, kill=True))

    def tell_end(self) -> None:
        """Report how it ended; to be repeated when the plane still asks for the task."""
        if self._end is not None:
            self._reporter.send(TaskEnded, **self._end.model_dump())

    # --- the life ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._where.make()
            notes.write(self._where.root, self._site.me, self.order)
            ending, keeps_folders = self._live()
            self._end = self._reporter.scrubbed(ending)
            self.tell_end()
            if self._plane.deaf:
                gone = "lines and files that had not been sent go with its folders"
                _log.warning("the plane takes nothing more of %s: %s", notes.named(self.order), gone)
            if not keeps_folders:
                clearing.clear(self.order, self._where, self._siblings())
        except Exception as trouble:
            _log.exception("task %s.%s broke", self.order.job_id, self.order.node_rank)
            self._report_trouble(trouble)
        finally:
            self._on_end(self)

    def _live(self) -> tuple[Ending, bool]:
        """Return how it ended, and whether its folders still hold what could not be stored."""
        can = self._site.me.capabilities
        self._guard = guard = Guarded(self._where.guard_log, self._wishes.wake)
        self.renew()
        address, environments = can.advertise_address or LOOPBACK, self._site.home / "environments"
        gating = Gating(self._wishes, self._where, self._plane, self._reporter, address, environments)
        try:
            given = secrets.fetch(self.order, self._plane)
            self._reporter.hide(given.values())
            gating.get_ready(guard)
            point = gating.meet()
            if gating.environment is not None:
                can = can.model_copy(update={"executable": gating.environment.python})
            launch = torchrun.launch(self.order, self._where, self._site.environ, self._site.me.name, can, point)
            if gating.environment is not None:
                variables = gating.environment.variables(launch.env.get("PATH", os.defpath))
                launch = replace(launch, env={**launch.env, **variables})
            return self._run_through(guard, replace(launch, secrets=given))
        except Stopped:
            return self._ending(), False
        except PreparationFailed as failure:
            return self._failed("preparation", failure.sentence, failure.next_step), False
        except Unreachable as failure:
            return self._failed("rendezvous", str(failure)), False
        finally:
            guard.close()
            gating.close()

    def _run_through(self, guard: Guarded, launch: torchrun.Launch) -> tuple[Ending, bool]:
        running = Running(self._wishes, self._where, self._plane, self._reporter, self._faults, guard, launch, self._lease)
        self._running = running
        running.update(self.order)  # one that came while it was made
        found = running.run()
        ending = self._ending(found.exit_code, well=found.well, failed_call=found.failed_call, sentence=found.sentence)
        ending = self._reporter.scrubbed(ending)
        notes.write_ending(self._where.root, ending)  # what follows may take long, and we may be killed
        troubles = running.store(self._siblings)
        if not troubles:
            return ending, False
        words = [*troubles, f"They stay in {self._where.work} and {self._where.spool}.", ending.sentence]
        return ending.model_copy(update={"sentence": " ".join(filter(None, words))}), True

    # --- the end -----------------------------------------------------------------------------------------------------

    def _ending(
        self, exit_code: int | None = None, *, well: bool = False, failed_call: bool = False, sentence: str = ""
    ) -> Ending:
        return stopping.of_task(
            stop=self._wishes.stop,
            evidence=tuple(self._faults.seen),
            exit_code=exit_code,
            well=well,
            failed_call=failed_call,
            sentence=sentence,
        )

    def _failed(self, kind: EvidenceKind, sentence: str, next_step: str = "") -> Ending:
        self._faults.add(Evidence(kind=kind, node_rank=self.order.node_rank, sentence=sentence, next_step=next_step))
        return self._ending()

    def _report_trouble(self, trouble: Exception) -> None:
        found = Evidence(kind="exit", node_rank=self.order.node_rank, sentence=f"{type(trouble).__name__}: {trouble}")
        self._faults.seen.append(found)
        self._end = self._end or self._ending()
        with suppress(Exception):  # the agent tells it again as long as the plane asks
            self.tell_end()

    def _siblings(self) -> list[Path]:
        return layout.siblings(self._site.shared, self.order)
