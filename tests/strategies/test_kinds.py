"""What an outcome looks into."""

from __future__ import annotations

from lightning.pytorch import Trainer

import gpulayer
from gpulayer.strategies import kinds


def test_our_trainer_is_looked_into_as_lightnings_is() -> None:
    assert kinds.kind_of(object.__new__(Trainer)) is kinds.Kind.OBJECT
    assert kinds.kind_of(object.__new__(gpulayer.Trainer)) is kinds.Kind.OBJECT


def test_our_other_objects_are_machinery() -> None:
    assert kinds.closed(gpulayer.JobOptions)
    assert kinds.closed(gpulayer.GPULayerStrategy)
