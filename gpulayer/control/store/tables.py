"""The tables of a plane. What is searched for is a column; the rest of a value is its JSON."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()

_Big = BigInteger().with_variant(Integer, "sqlite")
"""A number that may pass two thousand million: SQLite's integers do anyway."""

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("key", String(200), unique=True),
    Column("name", Text),
    Column("owner", String(32), index=True),
    Column("state", String(16), nullable=False, index=True),
    Column("created_at", Float, nullable=False, index=True),
    Column("deadline", Float, index=True),
    Column("version", Integer, nullable=False),
    Column("events", Integer, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("spec", Text, nullable=False),
    Column("rest", Text, nullable=False),
)
"""``deadline`` is when the engine wants to look at the job again; ``nodes`` counts the tasks that the record has now; ``rest``
is the record without spec and tasks."""

tasks = Table(
    "tasks",
    metadata,
    Column("job_id", String(32), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("node_rank", Integer, primary_key=True),
    Column("worker_id", String(32), nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("held", Boolean, nullable=False, default=True),
    Column("assigned_at", Float, nullable=False),
    Column("world_size", Integer, nullable=False),
    Column("record", Text, nullable=False),
    Index("tasks_held", "held", "worker_id"),
)
"""The tasks of all attempts. ``held`` says that processes of it may live: only then may its devices be given away."""

events = Table(
    "events",
    metadata,
    Column("job_id", String(32), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("node_rank", Integer),
    Column("facts", Text, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", Text, nullable=False, index=True),
    Column("owner", String(32)),
    Column("process", String(32), index=True),
    Column("state", String(16), nullable=False, index=True),
    Column("registered_at", Float, nullable=False),
    Column("heard_at", Float, nullable=False),
    Column("info", Text, nullable=False),
    Column("before_lost", String(16)),
)
"""``before_lost`` is the state in which a lost worker was, and will be again when it is heard."""

processes = Table(
    "processes",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("opened_at", Float, nullable=False),
    Column("left", Boolean, nullable=False),
    Column("ended_at", Float, index=True),
    Column("heard_at", Float),
    Column("host", Text),
)
"""Who has the home open, or calls a hosted plane. ``left`` is its farewell; ``ended_at`` is set when nothing of it remains to
be cleared up; ``heard_at`` is the last word of a caller of a hosted plane, on ``host``."""

manifests = Table(
    "manifests",
    metadata,
    Column("job_id", String(32), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("node_rank", Integer, primary_key=True),
    Column("call", Integer),
    Column("final", Boolean, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("job_id", String(32), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("node_rank", Integer, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("sha256", String(64), nullable=False, index=True),
    Column("size", _Big, nullable=False),
    Column("mode", Integer, nullable=False),
    Column("mtime", Float, nullable=False),
)

checkpoint_shares = Table(
    "checkpoint_shares",
    metadata,
    Column("job_id", String(32), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("serial", Integer, primary_key=True),
    Column("rank", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("share", Text, nullable=False),
)

checkpoint_removals = Table(
    "checkpoint_removals",
    metadata,
    Column("job_id", String(32), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("serial", Integer, nullable=False),
)
"""The highest serial of a path up to which the job deleted what it had saved there."""

log_chunks = Table(
    "log_chunks",
    metadata,
    Column("id", _Big, primary_key=True, autoincrement=True),
    Column("job_id", String(32), nullable=False),
    Column("count", Integer, nullable=False),
    Column("lines", LargeBinary, nullable=False),
    Index("log_chunks_of_job", "job_id", "id"),
    sqlite_autoincrement=True,
)

log_sizes = Table(
    "log_sizes",
    metadata,
    Column("job_id", String(32), primary_key=True),
    Column("lines", _Big, nullable=False),
    Column("bytes", _Big, nullable=False),
)
"""How much is stored of each job's log."""

log_marks = Table(
    "log_marks",
    metadata,
    Column("job_id", String(32), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("node_rank", Integer, primary_key=True),
    Column("stream", String(32), primary_key=True),
    Column("seq", Integer, nullable=False),
)
"""The highest stored ``seq`` of each stream, written with the chunk that holds it. ``stream`` reads "3/stdout"."""

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("size", _Big, nullable=False),
    Column("touched_at", Float, nullable=False),
    Column("condemned_at", Float),
)
"""A row means that the bytes are in the artifact store; ``touched_at`` is when someone last counted on it.

From ``condemned_at`` on the bytes are being deleted, and nobody may count on them.
"""

marks = Table("marks", metadata, Column("name", String(32), primary_key=True), Column("value", Float, nullable=False))
"""Times of the plane's own housekeeping."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("subject", String(64), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("hash", String(64), nullable=False, unique=True, index=True),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("single_use", Boolean, nullable=False),
    Column("redeemed_at", Float),
    Column("redeemed_key", String(64)),
    Column("worker_id", String(32)),
    Column("revoked_at", Float),
    Column("last_used_at", Float),
)
"""Who may ask what. ``hash`` is the SHA-256 of the token, which is nowhere; ``subject`` is the worker or job it is for, or
empty; ``redeemed_key`` is the hash of the key that joined by it as ``worker_id``."""

secrets = Table(
    "secrets",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
)
"""Encrypted values under their names."""
