"""Beside the script."""

from acme.training import train as train
