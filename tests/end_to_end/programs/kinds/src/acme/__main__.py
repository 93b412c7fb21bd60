"""``python -m acme``."""

import sys

from acme.training import train

if __name__ == "__main__":
    sys.exit(train(devices=1))
