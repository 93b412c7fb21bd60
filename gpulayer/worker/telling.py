"""Tells the ranks of a task what the plane has to say to them."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from gpulayer.spec.calls import Go
from gpulayer.spec.files import Blob, FileEntry, inside
from gpulayer.spec.rank_messages import Begin, End, GoAhead, Interrupted
from gpulayer.spec.records import Order
from gpulayer.transport import unix
from gpulayer.worker import calls
from gpulayer.worker.layout import TaskFolders
from gpulayer.worker.patience import PatientPlane

_log = logging.getLogger(__name__)


class Telling:
    """A thread that says to each rank, once, what the newest order holds for it; what it needs of files is there by then."""

    def __init__(self, order: Order, where: TaskFolders, plane: PatientPlane) -> None:
        self._order = order
        self._where = where
        self._plane = plane
        self._changed = threading.Condition()
        self._closed = False
        self._ranks: dict[int, tuple[unix.Connection, calls.Told]] = {}
        threading.Thread(target=self._tell, name="gpulayer-tell", daemon=True).start()

    def add(self, rank: int, connection: unix.Connection) -> None:
        """Take in a rank that has come."""
        with self._changed:
            self._ranks[rank] = (connection, calls.Told())
            self._changed.notify_all()

    def update(self, order: Order) -> None:
        """Take the newest order."""
        with self._changed:
            self._order = order
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _tell(self) -> None:
        while todo := self._await_something():
            for rank, connection, saying in todo:
                self._say(rank, connection, saying)

    def _await_something(self) -> list[tuple[int, unix.Connection, calls.Saying]]:
        """Return what is to be said next, noted as said; nothing when closed."""
        with self._changed:
            while not self._closed:
                todo = [
                    (rank, connection, saying)
                    for rank, (connection, told) in self._ranks.items()
                    for saying in calls.due(self._order, told)
                ]
                for rank, _, saying in todo:
                    calls.note(self._ranks[rank][1], saying)
                if todo:
                    return todo
                self._changed.wait()
        return []

    def _say(self, rank: int, connection: unix.Connection, saying: calls.Saying) -> None:
        try:
            match saying:
                case calls.SayGo(go):
                    connection.send(self._go_ahead(go))
                case calls.SayBegin(call, state):
                    connection.send(Begin(call=call, state=self._local(state)))
                case calls.SayEnd():
                    connection.send(End())
                case calls.SayInterrupted():
                    connection.send(Interrupted())
        except OSError:
            _log.info("rank %s is gone and did not hear %s", rank, type(saying).__name__)
        except Exception:
            # A rank that can't be told would wait for ever: without its worker it leaves.
            _log.exception("rank %s could not be told %s", rank, type(saying).__name__)
            connection.close()

    def _go_ahead(self, go: Go) -> GoAhead:
        return GoAhead(
            go=go.model_dump_json(),
            settings=self._local(go.settings),
            earlier=tuple(self._local(earlier.outcome) for earlier in go.earlier),
            earlier_errors=tuple(self._local(earlier.error.body if earlier.error else None) for earlier in go.earlier),
            checkpoint=self._local_tree(go.checkpoint, self._where.bodies / f"checkpoint-{go.call}"),
        )

    def _local_tree(self, entries: tuple[FileEntry, ...], folder: Path) -> str | None:
        """Return the file or folder of which ``entries`` are the files, fetched once."""
        if not entries:
            return None
        for entry in entries:
            place = folder / inside(entry.path)
            if not place.exists():
                self._plane.fetch_blob(entry.blob.sha256, place)
        return str(folder / inside(entries[0].path).parts[0])

    def _local(self, blob: Blob | None) -> str | None:
        """Return a blob as a file in the task's folder, fetched once."""
        if blob is None:
            return None
        path: Path = self._where.bodies / blob.sha256
        if not path.exists():
            self._plane.fetch_blob(blob.sha256, path)
        return str(path)
