"""The files that jobs leave: manifests of outputs, and checkpoints as far as ranks announced them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from gpulayer.control.store import jobs, touched
from gpulayer.control.store.replace import replace
from gpulayer.control.store.tables import artifacts, blobs, checkpoint_removals, checkpoint_shares, manifests, tasks
from gpulayer.spec.files import Artifact, Blob, Checkpoint, CheckpointShare, Manifest


def keep_manifest(db: Connection, manifest: Manifest) -> bool:
    """Write the outputs of a node in place of those known; False when what is known is newer."""
    jobs.lock(db, manifest.job_id)
    key = {"job_id": manifest.job_id, "attempt": manifest.attempt, "node_rank": manifest.node_rank}
    here = [manifests.c[name] == value for name, value in key.items()]
    known = db.execute(select(manifests.c.call, manifests.c.final).where(*here)).first()
    if known is not None and not manifest.final and (known.final or (known.call or 0) > (manifest.call or 0)):
        return False
    replace(db, manifests, key, {"call": manifest.call, "final": manifest.final})
    db.execute(delete(artifacts).where(*(artifacts.c[name] == value for name, value in key.items())))
    rows = [
        {**key, "path": entry.path, **entry.blob.model_dump(), "mode": entry.mode, "mtime": entry.mtime}
        for entry in manifest.entries
    ]
    if rows:
        db.execute(insert(artifacts), rows)
    touched.note(db, manifest.job_id)
    return True


def of_attempt(db: Connection, job_id: str, attempt: int) -> list[Artifact]:
    """Return the files of an attempt as ``node<r>/<path>``."""
    query = select(artifacts).where(artifacts.c.job_id == job_id, artifacts.c.attempt == attempt)
    return [
        Artifact(
            job_id=job_id,
            attempt=attempt,
            path=f"node{row.node_rank}/{row.path}",
            blob=Blob(sha256=row.sha256, size=row.size),
            mode=row.mode,
            mtime=row.mtime,
        )
        for row in db.execute(query.order_by(artifacts.c.node_rank, artifacts.c.path))
    ]


def forget(db: Connection, found: Iterable[Artifact]) -> None:
    """Delete files from what a job left; their bytes are collected later."""
    for each in found:
        node, _, path = each.path.partition("/")
        here = {"job_id": each.job_id, "attempt": each.attempt, "node_rank": int(node.removeprefix("node")), "path": path}
        db.execute(delete(artifacts).where(*(artifacts.c[name] == value for name, value in here.items())))
        touched.note(db, each.job_id)


def announce(db: Connection, share: CheckpointShare, now: float) -> Checkpoint | None:
    """Write a rank's share of a checkpoint; returns the checkpoint if this share is what made it whole."""
    jobs.lock(db, share.job_id)
    before = _one(db, share)
    touched.note(db, share.job_id)
    if share.removed:
        _note_removal(db, share)
        return None
    where = share.model_dump(include={"job_id", "attempt", "path", "serial", "rank"})
    known = db.execute(select(checkpoint_shares.c.at).where(*(checkpoint_shares.c[k] == v for k, v in where.items()))).scalar()
    replace(db, checkpoint_shares, where, {"at": known or now, "share": share.model_dump_json()})
    return _one(db, share) if before is None else None


def _note_removal(db: Connection, share: CheckpointShare) -> None:
    key = {"job_id": share.job_id, "attempt": share.attempt, "path": share.path}
    here = [checkpoint_removals.c[name] == value for name, value in key.items()]
    known = db.execute(select(checkpoint_removals.c.serial).where(*here)).scalar()
    replace(db, checkpoint_removals, key, {"serial": max(share.serial, known or 0)})


def _one(db: Connection, share: CheckpointShare) -> Checkpoint | None:
    return next(iter(complete(db, share.job_id, save=(share.attempt, share.path, share.serial))), None)


class _Share(NamedTuple):
    at: float
    share: CheckpointShare


def complete(db: Connection, job_id: str, *, save: tuple[int, str, int] | None = None) -> list[Checkpoint]:
    """Return the whole checkpoints of a job, oldest first; only that of one ``save`` (attempt, path, serial) if given."""
    groups: dict[tuple[int, str, int], list[_Share]] = defaultdict(list)
    query = select(checkpoint_shares.c.at, checkpoint_shares.c.share).where(checkpoint_shares.c.job_id == job_id)
    if save is not None:
        columns = (checkpoint_shares.c.attempt, checkpoint_shares.c.path, checkpoint_shares.c.serial)
        query = query.where(*(column == value for column, value in zip(columns, save, strict=True)))
    for row in db.execute(query.order_by(checkpoint_shares.c.rank)):
        share = CheckpointShare.model_validate_json(row.share)
        groups[share.attempt, share.path, share.serial].append(_Share(row.at, share))
    removed = {
        (row.attempt, row.path): row.serial
        for row in db.execute(select(checkpoint_removals).where(checkpoint_removals.c.job_id == job_id))
    }
    worlds = _world_sizes(db, job_id)
    stored = _stored(db, {entry.blob.sha256 for shares in groups.values() for s in shares for entry in s.share.entries})
    found = [whole(shares, worlds.get(attempt, 0), stored, removed) for (attempt, _, _), shares in groups.items()]
    return sorted((c for c in found if c is not None), key=lambda c: (c.attempt, c.created_at, c.serial))


def whole(
    shares: Sequence[_Share], world_size: int, stored: set[str], removed: Mapping[tuple[int, str], int]
) -> Checkpoint | None:
    """Make a checkpoint of the shares of one save: None unless every rank announced it and all its files are stored."""
    entries = tuple(entry for one in shares for entry in one.share.entries)
    if len(shares) < world_size or not world_size or not {entry.blob.sha256 for entry in entries} <= stored:
        return None
    first = shares[0].share
    return Checkpoint(
        **first.model_dump(exclude={"rank", "entries", "removed"}),
        created_at=max(one.at for one in shares),
        entries=tuple(sorted(entries, key=lambda entry: entry.path)),
        removed=removed.get((first.attempt, first.path), -1) >= first.serial,
    )


def _world_sizes(db: Connection, job_id: str) -> dict[int, int]:
    query = select(tasks.c.attempt, tasks.c.world_size).where(tasks.c.job_id == job_id).distinct()
    return {row.attempt: row.world_size for row in db.execute(query)}


def not_stored(db: Connection, wanted: set[str]) -> set[str]:
    """Return which of the digests name no stored blob."""
    return wanted - _stored(db, wanted)


def _stored(db: Connection, wanted: Iterable[str]) -> set[str]:
    names, found = list(wanted), set[str]()
    for start in range(0, len(names), 500):
        query = select(blobs.c.sha256).where(blobs.c.sha256.in_(names[start : start + 500]))
        found.update(db.execute(query).scalars())
    return found
