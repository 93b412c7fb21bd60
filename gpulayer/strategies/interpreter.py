"""How this process's Python was told to be (``-O``, ``-W``, ``-X``), in the variables that tell another one the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def variables(flags: Any, warnings: Sequence[str]) -> dict[str, str]:
    """Return the environment of an interpreter that is to be as one with these ``sys.flags`` and ``sys.warnoptions``."""
    told = {
        "PYTHONOPTIMIZE": flags.optimize,
        "PYTHONDEVMODE": int(flags.dev_mode),
        "PYTHONUTF8": flags.utf8_mode,
        "PYTHONNOUSERSITE": flags.no_user_site,
        "PYTHONSAFEPATH": int(flags.safe_path),
        # A comma would end a filter in the variable, where on the command line it may be part of one.
        "PYTHONWARNINGS": ",".join(each for each in warnings if "," not in each),
    }
    return {name: str(value) for name, value in told.items() if value}
