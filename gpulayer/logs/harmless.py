"""Words that came from elsewhere, as a terminal may be shown them."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_CONTROL_BUT_NEWLINE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def harmless(text: str, *, lines: bool = False) -> str:
    r"""Show control characters as ``\x1b``: a name must not move the cursor or write another's words.

    ``lines`` keeps newlines, for sentences that may have several.
    """
    return (_CONTROL_BUT_NEWLINE if lines else _CONTROL).sub(lambda found: f"\\x{ord(found[0]):02x}", text)
