"""Where the objects of a job's caller may differ from those that Lightning's own ``ddp`` leaves, and why."""

from __future__ import annotations

import re

_CLOCK = "a clock"
_STAND_IN = "the caller's is a stand-in for what computes in the job"
_RESUMED = "equal in another shape: torch's load_state_dict makes it so, as in a fit that was resumed"
_BAR = "the job draws no bars of its own; the caller draws one progress line"
_DEALT = "predict deals out whole batches, as one device would have them, where ddp deals out rows"
_RANDOM = "made of a random name in each run"
_SCHEDULER = "not yet: a scheduler that a callback keeps is the Trainer's in the job, and another one with its state here"

ALLOWED = {
    "trainer._last_val_time": _CLOCK,
    "callback.ModelCheckpoint.*._last_time_checked": _CLOCK,
    "callback.Timer.0._start_time": _CLOCK,
    "callback.Timer.0._end_time": _CLOCK,
    "callback.Timer.0._offset": _CLOCK,
    "callback.ThroughputMonitor.0._t0s": _CLOCK,
    "callback.ThroughputMonitor.0._throughputs.*._time": _CLOCK,
    "trainer._logger_connector._logged_metrics.*/time": _CLOCK,
    "trainer._logger_connector._logged_metrics.*_per_sec": _CLOCK,
    "files.steps/version_0/metrics.csv.*/time": _CLOCK,
    "files.steps/version_0/metrics.csv.*_per_sec": _CLOCK,
    "files.*.ckpt.callbacks.Timer.time_elapsed": _CLOCK,
    "trainer.profiler.start_time": _CLOCK,
    "trainer.profiler.recorded_durations": "clocks, and a configure_optimizers more where the optimizers were looked at",
    "trainer@accelerator": _STAND_IN,
    "trainer@strategy": _STAND_IN,
    "optimizer.*.param_groups.*.keys": _RESUMED,
    "optimizer.*.param_groups.*.betas": _RESUMED,
    "optimizer.*._opt_called": "says that step was called on this very object; the steps were those of the job's",
    "*.grad": "gradients of the last step stay in the job: they would double what travels",
    "*._results": "what metrics are computed from stays in the job; the metrics come home",
    "data.made": "the loaders were asked for once more when they were looked at here",
    "callback.Bar.0*_progress_bar": _BAR,
    "callback.RichProgressBar.0*progress*": _BAR,
    "callback.RichProgressBar.0._console": _BAR,
    "callback.RichProgressBar.0._metric_component": _BAR,
    "callback.RichProgressBar.0@*_bar": _BAR,
    "logger.TensorBoardLogger.0._experiment": "a file that is open in the job; here it is opened by whoever writes to it",
    "trainer.predict_loop.current_batch_indices": _DEALT,
    "trainer.predict_loop._combined_loader._iterables.batch_sampler": _DEALT,
    "learning rate found: trainer*ckpt_path": _RANDOM,
    "pruned: callback.ModelPruning.0._original_layers": "its keys are the ids of objects, which mean nothing after the fit",
    "failed: *._metric_attributes": "a module's own cache of where its metrics are",
    "stochastic averages: scheduler.0.scheduler": _SCHEDULER,
    "stochastic averages: callback.StochasticWeightAveraging.0._swa_scheduler.optimizer": _SCHEDULER,
}
"""By places, in which a star means anything and what is below is meant too; some only at one moment. Each with its reason."""


def differences(moment: str, expected: dict[str, str], got: dict[str, str], used: set[str]) -> list[str]:
    """Return where two descriptions differ without being allowed to; the patterns that allowed something go to ``used``."""
    found = []
    for place in [*expected, *(place for place in got if place not in expected)]:
        if expected.get(place) == got.get(place):
            continue
        allowing = [pattern for pattern in ALLOWED if _means(pattern, moment, place)]
        used.update(allowing)
        if not allowing:
            found.append(f"{moment}: {place}: {expected.get(place)} | {got.get(place)}")
    return found


def _means(pattern: str, moment: str, place: str) -> bool:
    words = ".*".join(map(re.escape, pattern.split("*")))
    return re.fullmatch(f"{words}([.@].*)?", f"{moment}: {place}" if ": " in pattern else place) is not None
