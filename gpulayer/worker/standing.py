"""A standing worker: it serves a plane until it is told to go, or has done what it was started for."""

from __future__ import annotations

import logging
import signal
import threading
import time

from gpulayer.worker import spares
from gpulayer.worker.agent import Agent
from gpulayer.worker.bell import Bell
from gpulayer.worker.site import Site

_log = logging.getLogger(__name__)
_LOOK_S = 1.0
_DEAF_S = 10.0
"""How long a worker that is told to go, with nothing to do, waits for an answer of a plane that may have gone."""
_GOODBYE_S = 2.0
_DIE_S = 15.0
DONE, KILLED, DISMISSED = 0, 1, 3


class Standing:
    """One agent, and when it ends.

    Asked to end once, it takes no more and waits for its tasks; twice, it stops them with their grace; thrice, it kills them.
    """

    def __init__(self, site: Site, *, once: bool = False, idle_timeout_s: float | None = None) -> None:
        self._site = site
        self._bell = Bell()
        self._once = once
        self._idle_timeout_s = idle_timeout_s
        self._idle_since = time.monotonic()
        self._asked = 0
        self._draining_since: float | None = None
        self.agent = Agent(site, self._bell.ring)

    def listen_to_signals(self) -> None:
        """Take SIGTERM and SIGINT as being asked to end, SIGUSR1 as for the second time, SIGQUIT as for the third."""
        # Handlers, not SIG_IGN: an ignored signal would stay ignored in the jobs.
        signal.signal(signal.SIGHUP, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.ask_to_end())
        signal.signal(signal.SIGUSR1, lambda *_: self._take_as_asked(2))
        signal.signal(signal.SIGQUIT, lambda *_: self._take_as_asked(3))

    def ask_to_end(self) -> None:
        self._take_as_asked(self._asked + 1)

    def _take_as_asked(self, times: int) -> None:
        self._asked = max(self._asked, times)
        self._bell.ring()

    def run(self) -> int:
        """Serve; returns the exit code. The agent must be registered."""
        spares.OF_THIS_PROCESS.keep(self._site.me.slots + 1, again=True)
        threading.Thread(target=self.agent.run, name="gpulayer-agent", daemon=True).start()
        obeyed = 0
        while not self._over():
            self._bell.wait(_LOOK_S if self._draining_since or self._idle_timeout_s else None)
            if self._draining_since is None and (self._asked or self._has_done_its_part()):
                self._drain()
            if self._asked > obeyed:
                obeyed = self._asked
                self._press(obeyed)
            if obeyed > 2:
                return self._die()
        return self._leave()

    def _over(self) -> bool:
        agent = self.agent
        if agent.dismissed:
            return agent.await_idle(_DIE_S) or True
        if agent.busy:
            return False
        return agent.drained or self._waits_for_nobody()

    def _waits_for_nobody(self) -> bool:
        """Say whether it is to go and the plane, which would have to let it go, is not there."""
        if self._draining_since is None:
            return False
        return self.agent.unanswered or time.monotonic() - self._draining_since > _DEAF_S

    def _has_done_its_part(self) -> bool:
        if self._once and self.agent.taken:
            return True
        if self._idle_timeout_s is None:
            return False
        if self.agent.busy:
            self._idle_since = time.monotonic()
        return time.monotonic() - self._idle_since >= self._idle_timeout_s

    def _drain(self) -> None:
        """Have the plane give us nothing more; in the background, since it may be away."""
        self._draining_since = time.monotonic()
        threading.Thread(target=self._ask_for_no_more, name="gpulayer-drain", daemon=True).start()

    def _ask_for_no_more(self) -> None:
        while not self.agent.dismissed:
            try:
                self._site.plane.drain(self._site.me.id)
                return
            except Exception as trouble:
                _log.warning("the plane was not told that this worker takes no more: %s", trouble)
                time.sleep(_LOOK_S)

    def _press(self, times: int) -> None:
        if times == 1 and self.agent.busy:
            _log.warning("takes no more tasks and waits for those it has; ask again to stop them")
        elif times == 1:
            _log.warning("was told to end, and has no task")
        elif times == 2:
            _log.warning("stops its tasks; ask again to kill them")
            self.agent.stop_tasks()

    def _die(self) -> int:
        _log.warning("kills its tasks; what they left stays for the next start")
        self.agent.leave()
        self.agent.abandon()
        self.agent.give_up()
        self.agent.await_idle(_DIE_S)
        return KILLED

    def _leave(self) -> int:
        self.agent.leave()
        if self.agent.dismissed:
            return DISMISSED
        if self._draining_since is None:
            _log.warning("was told by its plane to take no more tasks, and has none")
        # A plane that is away is asked again for long: it will miss us when the lease has passed.
        goodbye = threading.Thread(target=self._say_goodbye, name="gpulayer-goodbye", daemon=True)
        goodbye.start()
        goodbye.join(_GOODBYE_S)
        _log.info("leaves")
        return DONE

    def _say_goodbye(self) -> None:
        try:
            self._site.plane.unregister(self._site.me.id)
        except Exception as trouble:
            _log.warning("the plane was not told that this worker leaves: %s", trouble)
