"""What runs inside a job, before and around the script of the user; it knows no Lightning."""

import sys

LOADED_BEFORE_US = frozenset(sys.modules)
"""The modules that were there when the first of ours was imported."""
