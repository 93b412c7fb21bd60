"""The private names of Lightning that the seam rests on, in every copy that is installed."""

from __future__ import annotations

import importlib.util
import inspect

import pytest

from gpulayer.strategies import names, seam

COPIES = [space for space in names.NAMESPACES if importlib.util.find_spec(space.partition(".")[0]) is not None]


@pytest.fixture(params=COPIES)
def found(request: pytest.FixtureRequest) -> names.Names:
    return names.of(request.param)


def test_every_name_is_there(found: names.Names) -> None:
    assert all(getattr(found, field) is not None for field in names.Names.__dataclass_fields__)


def test_the_connector_takes_the_arguments_that_the_seam_rewrites(found: names.Names) -> None:
    parameters = inspect.signature(seam.original_of(found.Connector)).parameters
    assert {"devices", "num_nodes", "accelerator", "strategy", "plugins", "precision"} <= set(parameters)


def test_all_calls_pass_through_the_launcher(found: names.Names) -> None:
    for implementation, public in names.FUNCTIONS.items():
        assert f"self.{implementation}" in inspect.getsource(getattr(found.Trainer, public))
    handler = importlib.import_module(f"{found.namespace}.trainer.call")._call_and_handle_interrupt
    assert "trainer.strategy.launcher.launch(trainer_fn, *args, trainer=trainer" in inspect.getsource(handler)


def test_an_error_passes_the_hooks_that_are_hidden(found: names.Names) -> None:
    source = inspect.getsource(importlib.import_module(f"{found.namespace}.trainer.call")._interrupt)
    for called in ('trainer, "on_exception"', "trainer.datamodule is not None", "strategy.on_exception", "trainer.loggers"):
        assert called in source


def test_a_probe_can_skip_the_cluster_and_the_launcher(found: names.Names) -> None:
    skipped = ("_set_parallel_devices_and_init_accelerator", "_choose_and_init_cluster_environment", "_lazy_init_strategy")
    source = inspect.getsource(seam.original_of(found.Connector))
    for method in skipped:
        assert f"self.{method}()" in source


def test_the_report_of_devices_is_looked_up_in_its_module(found: names.Names) -> None:
    assert "setup._log_device_info(self)" in inspect.getsource(found.Trainer.__init__)
