"""Tasks whose worker died with them: the next to come kills what still runs, saves what they left, and tells their end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from gpulayer.spec.records import Order, Stop
from gpulayer.spec.reports import CheckpointAnnounced, TaskEnded
from gpulayer.spec.states import Reason, TaskState
from gpulayer.worker import checkpoints, clearing, layout, notes
from gpulayer.worker.gathering import Gathering
from gpulayer.worker.patience import PatientPlane
from gpulayer.worker.reporter import Reporter
from gpulayer.worker.shipping import Shipping
from gpulayer.worker.site import Site
from gpulayer.worker.stopping import Ending

_log = logging.getLogger(__name__)
_GUARD_S = 30.0
_UPLOAD_S = 600.0
_LOST = Ending(
    state=TaskState.LOST,
    reason=Reason.WORKER_LOST,
    exit_code=None,
    sentence="Its worker ended without a word, and it was killed.",
)


class Leftover:
    """Sees one such task to its end in a thread of its own; orders change nothing for it any more."""

    def __init__(self, order: Order, site: Site, plane: PatientPlane, on_end: Callable[[Leftover], None]) -> None:
        self.order = order
        self._shared = site.shared
        self._plane = plane
        self._on_end = on_end
        self._where = layout.folders(site.home, site.shared, order)
        self._reporter = Reporter(plane, site.me, order)
        self.end = notes.ending(self._where.root) or _LOST
        threading.Thread(target=self._run, name=f"gpulayer-left-{order.job_id}", daemon=True).start()

    def update(self, order: Order) -> None:
        """It has no processes that could follow."""

    def renew(self) -> None:
        """It has no processes that could outlive a lease."""

    def stop(self, stop: Stop) -> None:
        """It has ended."""

    def abandon(self, sentence: str = "") -> None:
        """It has ended."""

    def tell_end(self) -> None:
        self._reporter.send(TaskEnded, **self.end.model_dump())

    def _run(self) -> None:
        try:
            self._await_none_left()
            saved = self._save()
            self.tell_end()
            if saved:
                clearing.clear(self.order, self._where, layout.siblings(self._shared, self.order))
        except Exception:
            _log.exception("what %s left could not be cleared up; it stays in %s", self.order.job_id, self._where.root)
        finally:
            self._on_end(self)

    def _await_none_left(self) -> None:
        """Its guard kills everything when its worker dies, and frees the lock; without a guard, its mark finds them."""
        clearing.await_free([self._where.lock], _GUARD_S)
        while left := clearing.kill_marked(self._where.root):
            _log.error("the kernel does not end %s of %s", left, self.order.job_id)

    def _save(self) -> bool:
        """Send the lines and store the files that are still there; say whether all of them are safe now."""
        if not self._where.root.exists():
            return True
        shipping = Shipping(self._plane, self.order, self._where)
        for folder, save in checkpoints.left(self._where.kept):
            share = checkpoints.share(self.order, save, folder, self._plane.put_blob)
            self._reporter.send(CheckpointAnnounced, share=share)
        gathered = Gathering(self.order, self._where, self._plane, self._reporter)
        if self._where.baseline.exists():
            gathered.store_last(layout.siblings(self._shared, self.order))
        whole = shipping.finish(_UPLOAD_S) and not gathered.troubles
        told = "all" if whole else f"not all, the rest stays in {self._where.root}"
        sent = f"{shipping.count} lines and {gathered.count} files sent ({told})"
        _log.info("%s: left by a worker that was killed; its ranks are gone, %s", notes.named(self.order), sent)
        return whole


def of_worker(site: Site, plane: PatientPlane, on_end: Callable[[Leftover], None]) -> Iterator[Leftover]:
    """Take over what an earlier process of this same worker left."""
    for root, note in notes.left(site.home / "tasks"):
        if note.worker_id == site.me.id:
            yield _claimed(root, note, site, plane, on_end)


def clear_former(site: Site) -> None:
    """Clear away what a worker left that served from this folder with a key that is good for nothing any more.

    An admin removed it, its tasks with it: nobody waits for their ends. Only a worker of a server has its folder for itself.
    """
    if not site.leased:
        return
    for root, note in notes.left(site.home / "tasks"):
        if note.stays and note.worker_id != site.me.id:
            notes.claim(root, note)
            threading.Thread(target=_clear_former, args=(root, note, site), name="gpulayer-former", daemon=True).start()


def _clear_former(root: Path, note: notes.TaskNote, site: Site) -> None:
    where = layout.folders(site.home, site.shared, note.order)
    clearing.await_free([where.lock], _GUARD_S)
    clearing.kill_marked(root)
    clearing.clear(note.order, where, layout.siblings(site.shared, note.order))
    _log.info("%s: left by %s, which was removed from the plane; cleared away", notes.named(note.order), note.worker_id)


def of_dead_callers(site: Site, plane: PatientPlane) -> list[Leftover]:
    """Take over what workers left that were there for one caller, and that nobody will start again."""
    found = [(root, note) for root, note in notes.left(site.home / "tasks") if not note.stays]
    return [_claimed(root, note, site, plane, lambda _: None) for root, note in found]


def unknown(order: Order, site: Site, plane: PatientPlane, on_end: Callable[[Leftover], None]) -> Leftover:
    """Tell the end of a task that runs according to the plane, and of which nothing is here."""
    return Leftover(order, site, plane, on_end)


def _claimed(root: Path, note: notes.TaskNote, site: Site, plane: PatientPlane, on_end: Callable[[Leftover], None]) -> Leftover:
    notes.claim(root, note)
    whose = site.me if note.worker_id == site.me.id else site.me.model_copy(update={"id": note.worker_id, "incarnation": ""})
    return Leftover(note.order, replace(site, me=whose), plane, on_end)
