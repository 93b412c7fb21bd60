"""The job's secrets as its own processes know them: what they record for other machines shows no value.

They are read when this is imported: the script may change its environment later.
"""

from __future__ import annotations

import os

from gpulayer.logs.scrub import Scrubber

SCRUBBER = Scrubber(os.environ.get(name, "") for name in os.environ.get("GPULAYER_SECRETS", "").split(",") if name)
