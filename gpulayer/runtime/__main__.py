"""``python -m gpulayer.runtime``."""

import sys

from gpulayer.runtime.main import main

main(sys.argv[1:])
