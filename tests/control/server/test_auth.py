"""Who gets in, and what they may do there."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpulayer.control.engine.rights import RIGHTS, Action, Whose, extent
from gpulayer.control.server import auth, fleet, known_tokens
from gpulayer.control.store import jobs, tables, tokens, workers
from gpulayer.control.store.store import Store, open_store
from gpulayer.errors import BadRequest, Forbidden, JobNotFound, TokenNotFound, Unauthorized, WorkerRemoved
from gpulayer.spec.states import TaskState
from gpulayer.spec.tokens import NewToken, TokenRequest, seconds
from tests.control.given import a_blob, a_command, a_record, a_task
from tests.control.given import a_worker as a_worker_info

NOW = 1_000_000.0
KEY, OTHER_KEY = "k" * 43, "o" * 43


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "plane").mkdir()
    opened = open_store(tmp_path / "plane")
    yield opened
    opened.close()


def a_token(store: Store, role: str = "user", **fields: object) -> NewToken:
    return auth.create(store, TokenRequest(role=role, **fields), NOW)  # type: ignore[arg-type]


def a_worker(store: Store, key: str = KEY) -> auth.Principal:
    auth.redeem(store, a_token(store, "join").token, hashed(key), "box", NOW)
    return auth.authenticate(store, key, NOW)


# --- who gets in -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["admin", "user", "join"])
def test_a_token_is_its_holder(store: Store, role: str) -> None:
    made = a_token(store, role)

    assert auth.authenticate(store, made.token, NOW) == auth.Principal(role, "", made.id)  # type: ignore[arg-type]


def test_the_text_is_kept_nowhere(store: Store, tmp_path: Path) -> None:
    made = a_token(store)
    auth.authenticate(store, made.token, NOW)

    assert not [path for path in (tmp_path / "plane").iterdir() if made.token.encode() in path.read_bytes()]
    assert made.token not in str(auth.listed(store))


def test_a_token_names_the_certificate_by_which_its_holder_knows_the_server(store: Store) -> None:
    made = auth.create(store, TokenRequest(role="join"), NOW, fingerprint="a" * 64)

    assert made.token.startswith("glj_")
    assert made.token.endswith("." + "a" * 64)
    assert auth.authenticate(store, made.token, NOW).role == "join"
    assert auth.authenticate(store, made.token.partition(".")[0], NOW).role == "join"


def test_a_token_ends_in_its_time(store: Store) -> None:
    made = a_token(store, ttl_s=60.0)

    auth.authenticate(store, made.token, NOW + 59.9)
    with pytest.raises(Unauthorized, match="expired"):
        auth.authenticate(store, made.token, NOW + 60)


def test_a_revoked_token_is_refused_at_once_though_it_was_just_used(store: Store) -> None:
    made = a_token(store)
    auth.authenticate(store, made.token, NOW)

    auth.revoke(store, made.id[:9], NOW)

    with pytest.raises(Unauthorized, match="revoked"):
        auth.authenticate(store, made.token, NOW)


def test_what_was_read_before_a_revocation_is_not_kept_after_it(store: Store) -> None:
    made = a_token(store)
    known = known_tokens.of(store)
    generation = known.generation
    with store.read() as db:
        read_before = tokens.by_hash(db, hashed(made.token))
    assert read_before is not None

    auth.revoke(store, made.id, NOW)
    known.keep(read_before, generation)

    with pytest.raises(Unauthorized):
        auth.authenticate(store, made.token, NOW)


def test_another_server_hears_of_a_revocation_when_its_memory_ends(store: Store, tmp_path: Path) -> None:
    made = a_token(store)
    other = open_store(tmp_path / "plane")
    try:
        auth.authenticate(other, made.token, NOW)
        auth.revoke(store, made.id, NOW)
        known_tokens.of(other).forget()
        with pytest.raises(Unauthorized):
            auth.authenticate(other, made.token, NOW)
    finally:
        other.close()


def test_who_revokes_names_a_token_that_is_there(store: Store) -> None:
    a_token(store)
    for wanted in ("tok-zz", "", "tok-", "%"):
        with pytest.raises(TokenNotFound):
            auth.revoke(store, wanted, NOW)


def test_the_last_use_is_noted_now_and_then(store: Store) -> None:
    made = a_token(store)
    auth.authenticate(store, made.token, NOW)
    known_tokens.of(store).forget()
    auth.authenticate(store, made.token, NOW + 1)
    assert [record.last_used_at for record in auth.listed(store)] == [NOW]

    known_tokens.of(store).forget()
    auth.authenticate(store, made.token, NOW + 55)
    assert [record.last_used_at for record in auth.listed(store)] == [NOW + 55]


def test_a_worker_uses_its_key_whenever_it_is_heard_and_that_is_known_of_a_removed_one(store: Store) -> None:
    worker = a_worker(store)
    fleet.register(store, a_worker_info(id=worker.subject), NOW)
    with store.write() as db:
        workers.heard(db, worker.subject, NOW + 7)

    def used() -> list[float | None]:
        return [record.last_used_at for record in auth.listed(store) if record.role == "worker"]

    assert used() == [NOW + 7]
    fleet.remove(store, worker.subject, NOW + 9)
    assert used() == [NOW + 7]


def test_what_makes_no_sense_is_not_made(store: Store) -> None:
    for fields in ({"role": "user", "single_use": True}, {"role": "task"}, {"role": "admin", "subject": "job-1"}):
        with pytest.raises(BadRequest):
            TokenRequest(**fields)  # type: ignore[arg-type]
    with pytest.raises(JobNotFound):
        a_token(store, "task", subject="job-1")
    with pytest.raises(ValueError, match="role"):
        TokenRequest(role="worker")  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "expected"), [("90", 90), ("90s", 90), ("2m", 120), ("1h", 3600), ("7d", 604800)])
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "0", "1.5h", "h", "-1h", "1y", "1h2m"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(text)


WEIRD = [
    None,
    "",
    " ",
    "Bearer",
    "\x00",
    "glt_\x00" + "a" * 43,
    "é" * 47,
    "glt_" + "\uff41" * 43,
    "x" * 100_000,
    "../" * 20,
    "'" * 40,
]


@pytest.mark.parametrize("bearer", WEIRD)
def test_weird_headers_are_refused_in_the_same_words(store: Store, bearer: str | None) -> None:
    with pytest.raises(Unauthorized):
        auth.authenticate(store, bearer, NOW)
    with pytest.raises(Unauthorized):
        auth.redeem(store, bearer, hashed(KEY), "", NOW)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "bearer", "\x00\x00 x"])
def test_a_header_without_a_token(header: str | None) -> None:
    with pytest.raises(Unauthorized):
        auth.bearer_of(header)


def test_a_header_with_a_token() -> None:
    assert auth.bearer_of("bearer  glt_x") == "glt_x"


MANGLED = st.one_of(
    st.builds(lambda at: ("truncated", at), st.integers(0, 46)),
    st.builds(lambda at, bit: ("flipped", at, bit), st.integers(0, 46), st.integers(0, 6)),
    st.builds(lambda at, by: ("put in", at, by), st.integers(0, 46), st.text(min_size=1, max_size=3)),
    st.builds(lambda text: ("other", text), st.text(max_size=300)),
)


def mangled(token: str, how: tuple[object, ...]) -> str:
    match how:
        case ("truncated", int(at)):
            return token[:at]
        case ("flipped", int(at), int(bit)):
            return token[:at] + chr(ord(token[at]) ^ (1 << bit)) + token[at + 1 :]
        case ("put in", int(at), str(by)):
            return token[:at] + by + token[at:]
        case (_, str(text)):
            return text
    raise AssertionError(how)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(how=MANGLED)
def test_no_other_text_passes(store: Store, how: tuple[object, ...]) -> None:
    token = a_token(store, "admin").token
    assert len(token) == 47
    other = mangled(token, how)
    if other != token:
        with pytest.raises(Unauthorized):
            auth.authenticate(store, other, NOW)


# --- joining ---------------------------------------------------------------------------------------------------------


def test_a_machine_joins_and_is_known_by_its_own_key(store: Store) -> None:
    join = a_token(store, "join", single_use=True)

    worker_id = auth.redeem(store, join.token, hashed(KEY), "box", NOW)

    found = auth.authenticate(store, KEY, NOW)
    assert (found.role, found.subject) == ("worker", worker_id)
    listed = {(record.role, record.name, record.worker_id) for record in auth.listed(store)}
    assert listed == {("join", "", worker_id), ("worker", "box", None)}


@pytest.mark.parametrize("single_use", [True, False])
def test_a_lost_answer_may_be_asked_for_again(store: Store, single_use: bool) -> None:
    join = a_token(store, "join", single_use=single_use, ttl_s=60.0)
    worker_id = auth.redeem(store, join.token, hashed(KEY), "", NOW)

    assert auth.redeem(store, join.token, hashed(KEY), "", NOW + 599) == worker_id
    with pytest.raises(Unauthorized):
        auth.redeem(store, join.token, hashed(KEY), "", NOW + 601)


def test_a_single_use_token_serves_one_key(store: Store) -> None:
    join = a_token(store, "join", single_use=True)
    auth.redeem(store, join.token, hashed(KEY), "", NOW)

    with pytest.raises(Unauthorized, match="one worker"):
        auth.redeem(store, join.token, hashed(OTHER_KEY), "", NOW)
    with pytest.raises(Unauthorized):
        auth.authenticate(store, join.token, NOW)
    with pytest.raises(Unauthorized):
        auth.authenticate(store, OTHER_KEY, NOW)


def test_a_token_that_serves_many_makes_a_worker_of_each(store: Store) -> None:
    join = a_token(store, "join")

    assert auth.redeem(store, join.token, hashed(KEY), "", NOW) != auth.redeem(store, join.token, hashed(OTHER_KEY), "", NOW)


def test_the_hash_of_somebody_elses_token_is_no_key(store: Store) -> None:
    admin, join = a_token(store, "admin"), a_token(store, "join")

    with pytest.raises(Unauthorized):
        auth.redeem(store, join.token, hashed(admin.token), "", NOW)


def test_another_single_use_token_is_not_told_what_a_key_became(store: Store) -> None:
    a_worker(store)
    join = a_token(store, "join", single_use=True)

    with pytest.raises(Unauthorized):
        auth.redeem(store, join.token, hashed(KEY), "", NOW)


def test_an_expired_or_revoked_join_token_admits_nobody(store: Store) -> None:
    expired, revoked = a_token(store, "join", ttl_s=1.0), a_token(store, "join")
    auth.revoke(store, revoked.id, NOW)

    for token in (expired.token, revoked.token):
        with pytest.raises(Unauthorized):
            auth.redeem(store, token, hashed(KEY), "", NOW + 2)


def test_only_join_tokens_join(store: Store) -> None:
    for token in (a_token(store, "admin").token, a_token(store).token):
        with pytest.raises(Forbidden):
            auth.redeem(store, token, hashed(KEY), "", NOW)


def test_a_worker_whose_credential_was_revoked_is_told_that_it_was_removed(store: Store) -> None:
    worker = a_worker(store)

    auth.revoke(store, worker.token_id, NOW)

    with pytest.raises(WorkerRemoved):
        auth.authenticate(store, KEY, NOW)


# --- what they may do ------------------------------------------------------------------------------------------------


def test_the_table_names_every_action() -> None:
    assert set(RIGHTS) == set(Action)


def test_an_admin_may_do_all_but_see_a_secret_or_join() -> None:
    assert {action for action in Action if extent("admin", action) is None} == {Action.USE_SECRETS, Action.JOIN}


def test_a_join_token_is_good_for_joining_only() -> None:
    assert [action for action in Action if extent("join", action)] == [Action.JOIN]


def test_only_admins_make_tokens_or_change_secrets_and_workers() -> None:
    for action in (Action.MANAGE_TOKENS, Action.CHANGE_SECRETS, Action.REMOVE_WORKERS):
        assert [role for role in ("user", "join", "worker", "task") if extent(role, action)] == []  # type: ignore[arg-type]


def test_no_worker_or_task_reaches_beyond_its_own_but_for_blobs() -> None:
    for action, roles in RIGHTS.items():
        if action in (Action.ABOUT, Action.READ_BLOBS, Action.WRITE_BLOBS):
            continue
        assert Whose.ANY not in (roles.get("worker"), roles.get("task")), action


def may(principal: auth.Principal, store: Store, action: Action, **on: object) -> bool:
    with suppress(Forbidden):
        principal.require(store, action, **on)  # type: ignore[arg-type]
        return True
    return False


def test_a_worker_is_itself_only(store: Store) -> None:
    worker = a_worker(store)

    for action in (Action.BE_WORKER, Action.DRAIN_WORKERS):
        assert may(worker, store, action, worker_id=worker.subject)
        assert not may(worker, store, action, worker_id="wkr-1")
        assert not may(worker, store, action)


def work(store: Store, worker_id: str, state: TaskState, job: str = "job-1") -> None:
    record = a_record(id=job, attempt=1)
    task = a_task(record, 0, worker_id, state=state)
    with store.write() as db:
        jobs.add(db, record, ())
        jobs.save(db, record.model_copy(update={"version": 1}), record.model_copy(update={"tasks": (task,)}), ())


def test_a_worker_reports_on_tasks_that_it_holds_or_held(store: Store) -> None:
    worker = a_worker(store)
    work(store, worker.subject, TaskState.FAILED)
    work(store, "wkr-other", TaskState.RUNNING, job="job-2")

    assert may(worker, store, Action.REPORT, worker_id=worker.subject, job_id="job-1", tasks=[(1, 0)])
    assert not may(worker, store, Action.REPORT, worker_id=worker.subject, job_id="job-1", tasks=[(1, 0), (1, 1)])
    assert not may(worker, store, Action.REPORT, worker_id="wkr-other", job_id="job-1")
    assert not may(worker, store, Action.REPORT, job_id="job-2")
    assert not may(worker, store, Action.REPORT)


def test_a_worker_gets_secrets_of_jobs_it_is_at(store: Store) -> None:
    worker = a_worker(store)
    work(store, worker.subject, TaskState.ASSIGNED)
    work(store, worker.subject, TaskState.SUCCEEDED, job="job-2")

    assert may(worker, store, Action.USE_SECRETS, job_id="job-1")
    assert not may(worker, store, Action.USE_SECRETS, job_id="job-2")
    assert not may(a_worker(store, OTHER_KEY), store, Action.USE_SECRETS, job_id="job-1")


def test_a_task_reads_the_files_of_its_own_job(store: Store) -> None:
    source = a_blob()
    for job in ("job-1", "job-2"):
        with store.write() as db:
            spec = a_command(source=source.sha256 if job == "job-1" else None)
            jobs.add(db, a_record(id=job, spec=spec), ())
    token = a_token(store, "task", subject="job-1")
    task = auth.authenticate(store, token.token, NOW)

    assert may(task, store, Action.READ_FILES, job_id="job-1")
    assert not may(task, store, Action.READ_FILES, job_id="job-2")
    assert may(task, store, Action.READ_BLOBS, sha256=source.sha256)
    assert not may(task, store, Action.READ_BLOBS, sha256="0" * 64)


def test_the_database_has_the_columns_that_a_token_has(store: Store) -> None:
    assert {column.name for column in tables.tokens.columns} - {"hash", "redeemed_key"} == set(auth.TokenRecord.model_fields)


def test_tokens_are_256_random_bits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []
    monkeypatch.setattr(secrets, "token_urlsafe", lambda count=None: asked.append(count) or "a" * 43)
    a_token(store)
    assert asked == [32]
