"""Which blobs are stored, when they were last spoken of, and which nothing refers to any more."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlalchemy import Connection, and_, delete, func, or_, select, update

from gpulayer.control.store import files
from gpulayer.control.store.replace import replace
from gpulayer.control.store.tables import artifacts, blobs, checkpoint_removals, checkpoint_shares, jobs
from gpulayer.spec.files import Blob

_AT_ONCE = 500
_DIGEST = re.compile(r'"([0-9a-f]{64})"')


def keep(db: Connection, blob: Blob, now: float) -> bool:
    """Note that a blob is stored, and that someone counts on it from now on; False while it is being deleted."""
    known = select(blobs.c.condemned_at).where(blobs.c.sha256 == blob.sha256).with_for_update()
    if db.execute(known).scalar() is not None:
        return False
    replace(db, blobs, {"sha256": blob.sha256}, {"size": blob.size, "touched_at": now})
    return True


def touch(db: Connection, sha256: str, now: float) -> bool:
    """Note that someone counts on a blob; False when it isn't stored."""
    touched = update(blobs).where(blobs.c.sha256 == sha256, blobs.c.condemned_at.is_(None)).values(touched_at=now)
    return bool(db.execute(touched).rowcount)


def touched_at(db: Connection, sha256: str) -> float | None:
    """Return when someone last counted on a blob, None when it isn't stored."""
    return db.execute(select(blobs.c.touched_at).where(blobs.c.sha256 == sha256, blobs.c.condemned_at.is_(None))).scalar()


def condemned_at(db: Connection, sha256: str) -> float | None:
    """Return since when a blob is being deleted, None when it isn't."""
    return db.execute(select(blobs.c.condemned_at).where(blobs.c.sha256 == sha256)).scalar()


def condemn(db: Connection, sha256: str, now: float, *, untouched_since: float, given_up_since: float) -> bool:
    """Begin to delete a blob: one that nobody touched since a time, or one whose deletion was begun and given up."""
    untouched = and_(blobs.c.condemned_at.is_(None), blobs.c.touched_at < untouched_since)
    given_up = blobs.c.condemned_at < given_up_since
    condemned = update(blobs).where(blobs.c.sha256 == sha256, or_(untouched, given_up)).values(condemned_at=now)
    return bool(db.execute(condemned).rowcount)


def forget_condemned(db: Connection, sha256: str, condemned_at: float) -> None:
    """Delete the row of a blob whose bytes are gone, unless another has begun to delete it anew."""
    db.execute(delete(blobs).where(blobs.c.sha256 == sha256, blobs.c.condemned_at == condemned_at))


def half_deleted(db: Connection, given_up_since: float) -> list[str]:
    """Return the blobs whose deletion was begun before a time and never ended: who did it was killed."""
    return list(db.execute(select(blobs.c.sha256).where(blobs.c.condemned_at < given_up_since)).scalars())


def unreferenced(db: Connection, untouched_since: float, released_since: float, released: set[str]) -> list[str]:
    """Return the blobs that nothing refers to and nobody touched since a time, a later one for those that were released.

    A job that deletes a checkpoint releases its files, unless it is the newest whole one.
    """
    kept, deleted = _checkpoint_digests(db)
    kept |= set(_digests(db)) | set(db.execute(select(artifacts.c.sha256).distinct()).scalars())
    released = released | deleted
    return [
        row.sha256
        for row in db.execute(select(blobs.c.sha256, blobs.c.touched_at).where(blobs.c.condemned_at.is_(None)))
        if row.sha256 not in kept and row.touched_at < (released_since if row.sha256 in released else untouched_since)
    ]


def of_job(db: Connection, job_id: str) -> set[str]:
    """Return every digest that is stored with a job."""
    found = set(db.execute(select(artifacts.c.sha256).where(artifacts.c.job_id == job_id)).scalars())
    for row in db.execute(select(jobs.c.spec, jobs.c.rest).where(jobs.c.id == job_id)):
        found.update(_DIGEST.findall(row.spec), _DIGEST.findall(row.rest))
    for text in db.execute(select(checkpoint_shares.c.share).where(checkpoint_shares.c.job_id == job_id)).scalars():
        found.update(_DIGEST.findall(text))
    return found


def size_of_job(db: Connection, job_id: str) -> int:
    """Return how many bytes the blobs have that are stored with a job."""
    wanted = sorted(of_job(db, job_id))
    parts = (wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE))
    return sum(db.execute(select(func.sum(blobs.c.size)).where(blobs.c.sha256.in_(part))).scalar() or 0 for part in parts)


def _checkpoint_digests(db: Connection) -> tuple[set[str], set[str]]:
    kept, released = set[str](), set[str]()
    with_removals = set(db.execute(select(checkpoint_removals.c.job_id).distinct()).scalars())
    for row in db.execute(select(checkpoint_shares.c.job_id, checkpoint_shares.c.share)):
        if row.job_id not in with_removals:
            kept.update(_DIGEST.findall(row.share))
    for job_id in with_removals:
        found = files.complete(db, job_id)
        gone = {(c.attempt, c.path, c.serial) for c in found[:-1] if c.removed}
        for row in db.execute(select(checkpoint_shares).where(checkpoint_shares.c.job_id == job_id)):
            save = (row.attempt, row.path, row.serial)
            (released if save in gone else kept).update(_DIGEST.findall(row.share))
    return kept, released


def _digests(db: Connection) -> Iterator[str]:
    """Find every digest in the specs and records of jobs: whatever field they stand in, they are referred to."""
    for row in db.execute(select(jobs.c.spec, jobs.c.rest)):
        yield from _DIGEST.findall(row.spec)
        yield from _DIGEST.findall(row.rest)
