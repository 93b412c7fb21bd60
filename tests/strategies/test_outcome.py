"""One Trainer fits, what it left is carried over, and a fresh twin becomes the same."""

from __future__ import annotations

import io
from collections import OrderedDict, defaultdict, deque
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import torchmetrics
from torch.utils.data import DataLoader, TensorDataset

from gpulayer.strategies import outcome
from gpulayer.strategies.outcome import Observation, Scene
from tests.strategies.graphs import differences

pytestmark = pytest.mark.filterwarnings("ignore")


def rows(count: int = 16) -> DataLoader[Any]:
    x = torch.sin(torch.arange(count * 4.0).reshape(count, 4))
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)


class Net(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Linear(4, 1)
        self.lazy = torch.nn.LazyLinear(2)
        self.mse = torchmetrics.MeanSquaredError()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("passing", torch.zeros(3), persistent=False)
        self.history: list[int] = []
        self.same_history = self.history
        self.notes: dict[str, Any] = {}
        self.frozen = torch.nn.Linear(2, 2)

    def setup(self, stage: str) -> None:
        self.made_in_setup = deque([1, 2], maxlen=3)

    def configure_model(self) -> None:
        if not hasattr(self, "deep"):
            self.deep = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.1))

    def configure_callbacks(self) -> Any:
        return [Kept()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x) + self.deep(x).sum(1, keepdim=True) + self.lazy(x).sum(1, keepdim=True)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.mse(self(batch[0]), batch[1])
        self.log("val_mse", self.mse)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.log("test_loss", torch.nn.functional.mse_loss(self(batch[0]), batch[1]))

    def on_train_epoch_end(self) -> None:
        self.count += 1
        self.passing = torch.ones(3) * self.current_epoch
        self.history.append(self.current_epoch)
        self.notes["epoch"] = OrderedDict(at=self.current_epoch, seen={1, 2}, where=Path("/x"), dtype=torch.float16)
        self.frozen.weight.requires_grad_(False)

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Kept(pl.Callback):
    def __init__(self) -> None:
        self.steps = 0
        self.by_epoch: defaultdict[int, list[int]] = defaultdict(list)

    def on_train_batch_end(self, trainer: Any, *rest: Any) -> None:
        self.steps += 1
        self.by_epoch[trainer.current_epoch].append(self.steps)


class Data(pl.LightningDataModule):
    def __init__(self) -> None:
        super().__init__()
        self.stages: list[str] = []

    def setup(self, stage: str) -> None:
        self.stages.append(stage)
        self.n = 16

    def train_dataloader(self) -> Any:
        return rows(self.n)

    def val_dataloader(self) -> Any:
        return rows(8)

    def test_dataloader(self) -> Any:
        return rows(8)


class Cast:
    """The objects of a script, made alike each time."""

    def __init__(self, folder: Path, **more: Any) -> None:
        pl.seed_everything(1, verbose=False)
        self.model, self.data = Net(), Data()
        self.stop = pl.callbacks.EarlyStopping("val_mse", patience=1)
        self.save = pl.callbacks.ModelCheckpoint(folder / "ckpt", monitor="val_mse", save_top_k=2, save_last=True)
        self.logger = pl.loggers.CSVLogger(folder, name="csv", version=0)
        self.trainer = pl.Trainer(
            accelerator="cpu",
            max_epochs=3,
            callbacks=[self.stop, self.save],
            logger=self.logger,
            enable_progress_bar=False,
            enable_model_summary=False,
            log_every_n_steps=1,
            default_root_dir=folder,
            **more,
        )

    def scene(self, **arguments: Any) -> Scene:
        return Scene(self.trainer, self.model, self.data, arguments)

    def roots(self) -> dict[str, Any]:
        return {name: root for name, root in self.scene().roots().items() if name != "__main__"}


def carried(observation: Observation, **facts: Any) -> dict[str, Any]:
    written = io.BytesIO()
    outcome.save(outcome.collect(observation, **facts), written)
    written.seek(0)
    return outcome.load(written)


def test_a_fit_makes_a_fresh_twin_the_same_object_graph(tmp_path: Path) -> None:
    there, here = Cast(tmp_path), Cast(tmp_path)
    observation = Observation(there.roots())
    there.trainer.fit(there.model, there.data)
    weight, history = here.model.net.weight, here.model.history

    applied = outcome.apply(carried(observation, trainer=there.trainer), here.scene())

    assert applied.lost == ()
    assert differences(there.roots(), here.roots()) == []
    assert here.model.net.weight is weight
    assert here.model.history is history
    assert here.model.same_history is history
    assert here.trainer.datamodule is here.data
    assert here.data.trainer is here.trainer
    assert here.model.trainer.current_epoch == 3
    assert here.trainer.callback_metrics["val_mse"] == there.trainer.callback_metrics["val_mse"]
    assert here.save.best_model_path == there.save.best_model_path
    assert [type(each).__name__ for each in here.trainer.callbacks] == [type(each).__name__ for each in there.trainer.callbacks]


def test_calls_one_after_the_other_keep_the_twin_the_same(tmp_path: Path) -> None:
    there, here = Cast(tmp_path), Cast(tmp_path)
    for call in ("fit", "test", "fit"):
        there.trainer.fit_loop.max_epochs = here.trainer.fit_loop.max_epochs = 4
        observation = Observation(there.roots())
        returned = getattr(there.trainer, call)(there.model, datamodule=there.data)
        applied = outcome.apply(carried(observation, trainer=there.trainer, returned=returned), here.scene())
        assert applied.lost == ()
        assert applied.returned == returned
        assert differences(there.roots(), here.roots()) == []


def test_a_local_fit_goes_on_where_the_carried_one_ended(tmp_path: Path) -> None:
    there, here = Cast(tmp_path), Cast(tmp_path)
    observation = Observation(there.roots())
    there.trainer.fit(there.model, there.data)
    outcome.apply(carried(observation, trainer=there.trainer), here.scene())

    here.trainer.logger.log_metrics({"more": 1.0}, step=99)
    here.trainer.logger.save()

    text = (tmp_path / "csv" / "version_0" / "metrics.csv").read_text()
    assert "more" in text.splitlines()[0]
    assert len(text.splitlines()) > 2


def test_the_random_states_that_were_left_are_gone_on_with(tmp_path: Path) -> None:
    from gpulayer.strategies import random_state

    observation = Observation({})
    left = random_state.now()
    body = carried(observation, extra={"random": left})
    expected = torch.rand(3)
    torch.rand(5)
    outcome.apply(body, Scene(None, None))
    assert torch.equal(torch.rand(3), expected)
    assert random_state.left() is not None


def test_what_cannot_be_carried_is_named_once_and_left_alone(tmp_path: Path) -> None:
    class Plain:
        def __init__(self) -> None:
            self.kept, self.open, self.made = [1], None, 0

    there, here = Plain(), Plain()
    observation = Observation({"thing": there})
    there.open = (tmp_path / "x").open("w")  # type: ignore[assignment]
    there.made, there.kept[0] = 5, 2
    body = carried(observation)
    there.open.close()  # type: ignore[attr-defined]
    assert body["lost"] == ["thing.open (TextIOWrapper)"]

    application = Scene(None, None, arguments={"thing": here})
    outcome.apply(body, application)
    assert (here.open, here.made, here.kept) == (None, 5, [2])


def test_closures_of_callbacks_and_globals_of_the_script_are_refilled(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    def script() -> types.ModuleType:
        main = types.ModuleType("__main__")
        exec(
            "seen, total = [], 0\n"
            "def hook(kind):\n    global total\n    total += 1\n    seen.append(kind)\n"
            "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n    return up\n"
            "up = counter()\n",
            vars(main),
        )
        return main

    there, here = script(), script()
    monkeypatch.setitem(sys.modules, "__main__", there)
    observation = Observation(Scene(None, None).roots())
    there.hook("ValueError")
    there.up()
    body = carried(observation)
    monkeypatch.setitem(sys.modules, "__main__", here)
    seen = here.seen
    outcome.apply(body, Scene(None, None))
    assert (here.seen, here.total, here.up()) == (["ValueError"], 1, 2)
    assert here.seen is seen


def test_tensors_are_copied_in_place_whatever_their_dtype_and_shape() -> None:
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = torch.nn.Linear(2, 2)
            self.register_buffer("grows", torch.zeros(2))
            self.register_buffer("nan", torch.zeros(()))
            self.register_buffer("moved", torch.zeros(2))
            self.meta = torch.nn.Linear(2, 2, device="meta")

    there, here = Holder(), Holder()
    observation = Observation({"model": there})
    there.lin.to(torch.bfloat16)
    there.grows.resize_(5).fill_(2)
    there.nan.fill_(float("nan"))
    there.moved = torch.ones(2)
    there.meta.to_empty(device="cpu")
    torch.nn.init.ones_(there.meta.weight)
    weight, grows, moved = here.lin.weight, here.grows, here.moved
    outcome.apply(carried(observation), Scene(None, here))
    assert differences({"model": there}, {"model": here}) == []
    assert here.lin.weight is weight
    assert weight.dtype is torch.bfloat16
    assert here.grows is grows
    assert here.moved is moved


def test_a_buffer_that_was_changed_and_then_replaced_has_the_new_ones_values() -> None:
    there, here = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    observation, old = Observation({"model": there}), here.running_mean
    assert there.running_mean is not None
    there.running_mean += 3
    there.running_mean = torch.full((2,), 5.0)
    there.running_var = torch.full((2,), 7.0)
    own = here.running_var

    outcome.apply(carried(observation), Scene(None, here))

    assert here.running_var is own
    values = [[] if each is None else each.tolist() for each in (here.running_mean, old, here.running_var)]
    assert values == [[5.0, 5.0], [3.0, 3.0], [7.0, 7.0]]


def test_a_module_that_a_call_made_is_whole_without_a_trainer() -> None:
    there, here = pl.Callback(), pl.Callback()
    observation = Observation({"trainer": there})
    there.teacher, there.data = Net(), Data()  # type: ignore[attr-defined]

    outcome.apply(carried(observation), Scene(here, None))

    teacher: Net = here.teacher  # type: ignore[attr-defined]
    assert teacher.current_epoch == 0
    assert teacher.loggers == []
    assert vars(teacher).keys() == vars(there.teacher).keys()  # type: ignore[attr-defined]
    assert here.data.trainer is None  # type: ignore[attr-defined]


def test_tied_weights_stay_tied() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    there, here = Tied(), Tied()
    observation = Observation({"model": there})
    there.other.weight = there.one.weight
    outcome.apply(carried(observation), Scene(None, here))
    assert here.other.weight is here.one.weight


def test_strings_are_translated_wherever_they_are(tmp_path: Path) -> None:
    class Paths:
        def __init__(self) -> None:
            self.one, self.scores, self.kind = "", {"/work/a.ckpt": 1.0}, Path("/work")

    there, here = Paths(), Paths()
    here.scores = {"/home/a.ckpt": 1.0}
    observation = Observation({"thing": there})
    there.one, there.scores["/work/b.ckpt"], there.kind = "/work/x", 2.0, Path("/work/y")
    written = io.BytesIO()
    outcome.save(outcome.collect(observation, lambda text: text.replace("/work", "/home")), written)
    written.seek(0)
    outcome.apply(outcome.load(written), Scene(None, None, arguments={"thing": here}))
    assert here.one == "/home/x"
    assert here.scores == {"/home/a.ckpt": 1.0, "/home/b.ckpt": 2.0}
    assert here.kind == Path("/home/y")


def test_a_failed_fit_is_carried_as_far_as_it_got(tmp_path: Path) -> None:
    there, here = Cast(tmp_path), Cast(tmp_path)

    class Stop(pl.Callback):
        def on_train_batch_end(self, trainer: Any, *rest: Any) -> None:
            if trainer.global_step == 6:
                raise ValueError("enough")

    for each in (there, here):
        each.trainer.callbacks.insert(0, Stop())
    observation = Observation(there.roots())
    with pytest.raises(ValueError, match="enough"):
        there.trainer.fit(there.model, there.data)
    applied = outcome.apply(carried(observation, trainer=there.trainer), here.scene())
    assert applied.lost == ()
    assert differences(there.roots(), here.roots()) == []
    assert here.trainer.global_step == 6
    assert here.trainer.state.status == "interrupted"


def test_optimizers_travel_as_states(tmp_path: Path) -> None:
    from gpulayer.strategies.outcome.optimizers import optimizers_of

    there = Cast(tmp_path)
    observation = Observation({})
    there.trainer.fit(there.model, there.data)
    body = carried(observation, extra=optimizers_of(there.trainer, there.trainer.lightning_module, collectives=True))
    state = outcome.read(body).extra["optimizers"][0]
    fresh = torch.optim.Adam(there.model.parameters(), lr=0.5)
    fresh.load_state_dict(state)
    assert fresh.param_groups[0]["lr"] == 0.01
    assert fresh.state[there.model.net.weight]["step"] == there.trainer.global_step


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "body"
    torch.save({"nodes": [TensorDataset(torch.ones(1))]}, path)
    with pytest.raises(Exception, match="Weights only load failed"):
        outcome.load(path)


def test_the_modules_own_tensors_are_seen_whatever_else_there_is() -> None:
    class Crowded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heap = [[n] for n in range(500)]
            self.net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(1, 1)))

    there, here = Crowded(), Crowded()
    observation = Observation({"data": [[n] for n in range(500)], "model": there}, budget=100)
    torch.nn.init.ones_(there.net[0][0].weight)
    outcome.apply(carried(observation), Scene(None, here))
    assert here.net[0][0].weight == 1


class Reading(io.BytesIO):
    """A file that counts what is read of it."""

    count = 0

    def readinto(self, buffer: Any) -> int:
        got = super().readinto(buffer)
        self.count += got
        return got


def test_the_modules_part_may_come_later_and_makes_the_same(tmp_path: Path) -> None:
    there, here = Cast(tmp_path), Cast(tmp_path)
    there.model.net.register_buffer("large", torch.zeros(1 << 16))
    here.model.net.register_buffer("large", torch.zeros(1 << 16))
    file, before = Reading(), here.model.net.weight.tolist()
    observation = Observation(there.roots())
    there.trainer.fit(there.model, there.data)
    there.model.net.large += 1
    states = {"optimizers": [there.trainer.optimizers[0].state_dict()]}
    outcome.save(outcome.collect(observation, trainer=there.trainer, states=states, kept={"best": ["/a"]}), file)
    size = file.tell()

    body = outcome.load(file, module=False)
    assert (body["heavy"], body["kept"]) == (True, {"best": ["/a"]})
    assert size > (1 << 18) > file.count
    applied = outcome.apply(body, here.scene())
    assert here.trainer.callback_metrics["val_mse"] == there.trainer.callback_metrics["val_mse"]
    assert here.save.best_model_path == there.save.best_model_path
    assert (here.model.net.weight.tolist(), here.model.history, applied.extra) == (before, [], {})

    assert applied.fill is not None
    filled = applied.fill(outcome.load(file)["module"])
    assert (applied.lost, filled.lost) == ((), ())
    assert differences(there.roots(), here.roots()) == []
    assert filled.extra["optimizers"][0]["state"].keys() == states["optimizers"][0]["state"].keys()
    assert outcome.read(outcome.load(file)).extra.keys() == {"optimizers"}
