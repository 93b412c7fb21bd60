"""What an outcome looks into."""

from __future__ import annotations

from lightning.pytorch import Trainer
from lightning.pytorch.strategies import DDPStrategy

import gpulayer
from gpulayer.strategies import kinds


def test_our_trainer_is_looked_into_as_lightnings_is() -> None:
    assert kinds.kind_of(object.__new__(Trainer)) is kinds.Kind.OBJECT
    assert kinds.kind_of(object.__new__(gpulayer.Trainer)) is kinds.Kind.OBJECT


def test_our_other_objects_are_machinery() -> None:
    assert kinds.closed(gpulayer.JobOptions)
    assert kinds.closed(gpulayer.GPULayerStrategy)


def test_a_strategy_of_the_users_own_is_machinery_as_well() -> None:
    class Own(DDPStrategy):
        pass

    assert kinds.closed(Own)


def test_each_kind_has_its_sentence_on_the_page_of_what_comes_back() -> None:
    assert set(kinds.HOW) == set(kinds.Kind)
    told = {cls for kind in kinds.Kind for cls in kinds.types_of(kind)}
    assert all(kinds.kind_of(value) is kind for kind, value in ((kinds.Kind.LIST, []), (kinds.Kind.CLASS, int)))
    assert {list, dict, set, int} <= told
