"""Waiting on a server: woken by topic from any thread, at the end of the time, by the end of the plane or of the client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from gpulayer.control.server.waits import Waits
from tests.control.given import until


async def never() -> None:
    await asyncio.Event().wait()


async def waits_on(waits: Waits, topic: str, look: Callable[[], str | None], timeout_s: float = 60.0) -> str | None:
    return await waits.wait_aside(topic, look, timeout_s, never)


def test_only_who_waits_for_the_topic_looks_again() -> None:
    looked = {"a": 0, "b": 0}
    there: list[str] = []

    def look_of(topic: str) -> Callable[[], str | None]:
        def look() -> str | None:
            looked[topic] += 1
            return there[0] if there else None

        return look

    async def story() -> tuple[str | None, str | None]:
        waits = Waits()
        both = [asyncio.create_task(waits_on(waits, topic, look_of(topic))) for topic in looked]
        while waits.waiting < 2 or not all(looked.values()):
            await asyncio.sleep(0.001)
        there.append("news")
        threading.Thread(target=waits.wake, args=(frozenset({"a"}),)).start()
        first = await both[0]
        assert not both[1].done()
        waits.wake(frozenset({"*"}))
        return first, await both[1]

    assert asyncio.run(story()) == ("news", "news")
    assert looked == {"a": 2, "b": 2}


def test_a_change_between_look_and_wait_is_not_missed() -> None:
    async def story() -> str | None:
        waits = Waits()
        found: list[str | None] = [None, "there"]

        def look() -> str | None:
            waits.wake(frozenset({"a"}))  # as if someone wrote just after this look
            return found.pop(0)

        return await waits_on(waits, "a", look)

    assert asyncio.run(story()) == "there"


def test_the_time_the_plane_and_the_client_end_a_wait() -> None:
    async def story() -> list[str | None]:
        waits = Waits()
        over = await waits_on(waits, "a", lambda: None, timeout_s=0.01)
        gone = asyncio.Event()
        hung_up = asyncio.create_task(waits.wait_aside("a", lambda: None, 60.0, gone.wait))
        closed = asyncio.create_task(waits_on(waits, "a", lambda: None))
        while waits.waiting < 2:
            await asyncio.sleep(0.001)
        gone.set()
        found = [over, await hung_up]
        waits.close()
        assert waits.waiting <= 1
        return [*found, await closed, await waits_on(waits, "a", lambda: None)]

    assert asyncio.run(story()) == [None] * 4


def test_a_thread_that_waits_is_woken_as_well() -> None:
    waits = Waits()
    there: list[str] = []
    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(waits.wait("a", lambda: there[0] if there else None, 60.0)))
    thread.start()
    until(lambda: waits.waiting)
    there.append("news")
    waits.wake(frozenset({"a"}))
    thread.join()
    assert found == ["news"]
    assert waits.wait("a", lambda: None, 0.0) is None


def test_where_words_may_get_lost_waiters_look_again_by_themselves() -> None:
    looks = iter([None, None, "there"])
    assert Waits(relook_s=0.01).wait("a", lambda: next(looks), 60.0) == "there"
