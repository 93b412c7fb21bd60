"""Stored JSON as values. The same text is parsed once: the values are frozen, and most texts never change."""

from __future__ import annotations

import json
from functools import lru_cache

from gpulayer.spec.job import CommandJob, DistributedJob, FunctionJob, parse_job
from gpulayer.spec.records import JobRecord, TaskRecord
from gpulayer.spec.workers import WorkerInfo


@lru_cache(maxsize=1024)
def spec(text: str) -> CommandJob | FunctionJob | DistributedJob:
    return parse_job(text)


@lru_cache(maxsize=4096)
def task(text: str) -> TaskRecord:
    return TaskRecord.model_validate_json(text)


@lru_cache(maxsize=16384)
def record(job_id: str, version: int, spec_text: str, rest: str, task_texts: tuple[str, ...]) -> JobRecord:
    tasks = tuple(task(text) for text in task_texts)
    return JobRecord.model_validate(
        {**json.loads(rest), "id": job_id, "version": version, "spec": spec(spec_text), "tasks": tasks}
    )


@lru_cache(maxsize=16384)
def worker_info(text: str) -> WorkerInfo:
    return WorkerInfo.model_validate_json(text)
