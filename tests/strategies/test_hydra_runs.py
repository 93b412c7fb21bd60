"""A run of hydra, said in the words by which a rank makes the same one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpulayer.strategies import hydra_runs, seam
from gpulayer.strategies.hydra_runs import HydraRun

OURS = "hydra.output_subdir=null"


def test_a_single_run_keeps_its_words_and_gets_the_callers_folder() -> None:
    run = HydraRun("/home/me/outputs/2026-01-01/12-00-00", sweeps=False)
    found = run.arguments(["lr=0.1", "hydra.run.dir=mine", "+model=big"], "/home/me")
    assert found == ("lr=0.1", "+model=big", "hydra.run.dir='outputs/2026-01-01/12-00-00'", OURS)


def test_one_run_of_a_sweep_becomes_a_single_one() -> None:
    given = (
        "lr=0.2",
        "+seed=1",
        "hydra.mode=MULTIRUN",
        "hydra.sweep.dir=runs",
        "hydra.job.chdir=True",
        "hydra/launcher=joblib",
    )
    run = HydraRun("/home/me/multirun/1", sweeps=True, overrides=given)
    found = run.arguments(["--config-name", "big", "-m", "lr=0.1,0.2", "--config-dir=conf", "+seed=1"], "/home/me")
    assert found[:-2] == ("--config-name", "big", "--config-dir=conf", "lr=0.2", "+seed=1", "hydra.job.chdir=True")
    assert found[-2:] == ("hydra.run.dir='multirun/1'", OURS)


def test_a_folder_with_a_quote_in_its_name_is_quoted_as_hydra_reads_it() -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    (_, place, _) = (None, *HydraRun("/home/me/it's here/a b", sweeps=False).arguments([], "/home/me"))
    (parsed,) = OverridesParser.create().parse_overrides([place])
    assert parsed.value() == "it's here/a b"


def test_without_hydra_there_is_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hydra.core.hydra_config", raising=False)
    assert hydra_runs.current() is None


def test_a_run_is_seen_as_hydra_tells_it_and_trainers_are_counted_in_each(tmp_path: Path) -> None:
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.utils import setup_globals
    from omegaconf import OmegaConf

    setup_globals()

    def enter(place: str) -> None:
        told = {"hydra": {"runtime": {"output_dir": place}, "overrides": {"task": ["lr=1"], "hydra": []}, "mode": "MULTIRUN"}}
        HydraConfig.instance().cfg = OmegaConf.create(told)

    try:
        enter("/a")
        first = [seam.next_ordinal(), seam.next_ordinal()]
        run = hydra_runs.current()
        enter("/b")
        assert (first, seam.next_ordinal()) == ([0, 1], 0)
    finally:
        HydraConfig.instance().cfg = None
    assert run is not None
    assert (run.output_dir, run.overrides) == ("/a", ("lr=1",))
