"""What a self-hosted plane remembers besides: when callers were heard, tokens, secrets, and the size of each job's log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("workers", sa.Column("before_lost", sa.String(length=16), nullable=True))
    op.add_column("blobs", sa.Column("condemned_at", sa.Float(), nullable=True))
    op.add_column("processes", sa.Column("heard_at", sa.Float(), nullable=True))
    op.add_column("processes", sa.Column("host", sa.Text(), nullable=True))
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("subject", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=True),
        sa.Column("single_use", sa.Boolean(), nullable=False),
        sa.Column("redeemed_at", sa.Float(), nullable=True),
        sa.Column("redeemed_key", sa.String(length=64), nullable=True),
        sa.Column("worker_id", sa.String(length=32), nullable=True),
        sa.Column("revoked_at", sa.Float(), nullable=True),
        sa.Column("last_used_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_workers_name"), "workers", ["name"], unique=False)
    op.create_index(op.f("ix_tokens_hash"), "tokens", ["hash"], unique=True)
    op.create_index(op.f("ix_tokens_subject"), "tokens", ["subject"], unique=False)
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "log_sizes",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("lines", _Big, nullable=False),
        sa.Column("bytes", _Big, nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.execute(
        "INSERT INTO log_sizes (job_id, lines, bytes) "
        "SELECT job_id, SUM(count), SUM(LENGTH(lines)) FROM log_chunks GROUP BY job_id"
    )
