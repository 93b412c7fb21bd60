"""What a script that a job loads for one of its functions must know: its own calls are the caller's to make."""

from __future__ import annotations

MAIN = "__mp_main__"
"""The name under which such a script is loaded, as multiprocessing's children load theirs: its main guard stays closed."""


class Loaded(BaseException):
    """Ends the loading at the first call of a remote function: what comes before is there by then."""


class _State:
    loading = False


STATE = _State()
