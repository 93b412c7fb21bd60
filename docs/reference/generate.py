"""Writes docs/reference/cli.md, errors.md and what-comes-back.md from the code: `make docs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from gpulayer import errors
from gpulayer.cli.main import command
from gpulayer.strategies import kinds

HERE = Path(__file__).parent
CLI_HEAD = """# Command line

Made from the code by `make docs`; don't edit. `python -m gpulayer` is the same program. Ids may be cut to any unique prefix.

Exit codes: 0 done, 1 the job failed (or something of ours did), 2 wrong use, 130 interrupted.
"""
ERRORS_HEAD = """# Errors

Made from the code by `make docs`; don't edit. All of them are in `gpulayer.errors`. Each has a `sentence`, a
`next_step`, `facts` (plain data), and a `code` that is stable. The user's own exceptions are not here: they arrive as
themselves.

| class | is a | code | next step |
|---|---|---|---|
"""
BACK_HEAD = """# What comes back

Made from the code by `make docs`; don't edit. After each call of a Trainer (a failed one too, as far as it got) the caller's
own objects hold what rank 0's hold in the job; where that only saw another rank fail, those of the other. Looked at are the
Trainer with its loops, callbacks and loggers, the module, the datamodule and dataloaders, the globals of the script and of its
own modules, and whatever these lead to. What did not change is left alone. What changed and can't travel is named in one
warning, and the rest comes all the same.

Nothing is unpickled: it is plain data and tensors, read with `weights_only=True`. Beside it come the files that the call
wrote, the optimizers and schedulers (made when first looked at, with the parameter groups, classes and states that they had in
the job), Python's, numpy's and torch's random states, and the returned value. `trainer.train_dataloader` and its like show what
they show after a local run: the loaders are asked for and prepared again when they are first looked at. Gradients stay in the
job. `predict` returns all ranks' predictions as one device would: see below.
`JobOptions(fetch=...)` says what of it comes at once ([how](../how-to/fetch.md)).

That this is what Lightning's own `ddp` leaves is tested place by place; `tests/end_to_end/allowed.py` lists where it is not,
with reasons.

## By kind

| kind | types | how it comes back |
|---|---|---|
"""
PREDICT = """
## predict

Whole batches are dealt out: of W ranks, rank r computes the batches r, r + W, r + 2W, ... of the loader that one device would
have. All ranks and the caller get all predictions, in the loader's order, on the CPU; limits count the batches of all ranks.
A rank may have a batch less than another, or none; where a model's ranks must compute together (FSDP and its like), a rank
without a batch repeats one, and that prediction is dropped.

| loader | what is returned |
|---|---|
| a `DataLoader` of a dataset with indices | the batches of one device, in its order |
| the same with `shuffle=True` | every row once; all ranks agree on an order, which is not that of one device |
| a `DistributedSampler` of yours | rows in the dataset's order, each once, if predictions have rows; else batches in turns |
| anything else, the same batches on every rank | one copy |
| anything else | rank by rank, and a warning names the loader |
"""
SHARDED = """
## Sharded models

Where each rank holds a part (FSDP, `ModelParallelStrategy`, `fully_shard`, tensor parallel), the ranks put parameters and
optimizer states together after each call, one tensor at a time, and the caller's module has them whole: its own layers, without
wrappers, and layers made in `configure_model`. What the caller changes between calls is dealt out again. Sharded checkpoints
are folders with every rank's files. After a failed call the weights stay the caller's, and the warning says so; likewise those
that DeepSpeed holds in parts.
"""


def pages() -> dict[Path, str]:
    """Return the text of each generated page."""
    return {HERE / "cli.md": cli_page(), HERE / "errors.md": errors_page(), HERE / "what-comes-back.md": back_page()}


def cli_page() -> str:
    return CLI_HEAD + "".join(_sections(command, click.Context(command, info_name="gpulayer")))


def _sections(group: click.Group, ctx: click.Context) -> Iterator[str]:
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        assert found is not None
        below = click.Context(found, info_name=name, parent=ctx)
        yield _section(found, below)
        if isinstance(found, click.Group):
            yield from _sections(found, below)


def _section(found: click.Command, ctx: click.Context) -> str:
    level = "##" if ctx.parent is not None and ctx.parent.parent is None else "###"
    usage = " ".join([ctx.command_path, *found.collect_usage_pieces(ctx)])
    options = "".join(f"- `{names}`: {_sentence(text)}\n" for names, text in _options(found, ctx))
    text = " ".join((found.help or "").split())
    return f"\n{level} {ctx.command_path}\n\n    {usage}\n\n{text}\n" + (f"\n{options}" if options else "")


def _options(found: click.Command, ctx: click.Context) -> list[tuple[str, str]]:
    options = [param for param in found.params if isinstance(param, click.Option)]
    return [record for option in options if (record := option.get_help_record(ctx))]


def _sentence(text: str) -> str:
    return " ".join(text.split())


def errors_page() -> str:
    return ERRORS_HEAD + "".join(_row(cls) for cls in _tree(errors.GPULayerError))


def _tree(cls: type[errors.GPULayerError]) -> Iterator[type[errors.GPULayerError]]:
    yield cls
    for child in cls.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child)


def _row(cls: type[errors.GPULayerError]) -> str:
    above = ", ".join(base.__name__ for base in cls.__bases__)
    return f"| `{cls.__name__}` | {above} | `{cls.code}` | {cls.fix.replace('|', '/')} |\n"


def back_page() -> str:
    rows = (f"| {kind.value} | {_types(kind)} | {how} |\n" for kind, how in kinds.HOW.items())
    alone = (f"- of a `{base}`: {_code(sorted(names))}\n" for base, names in kinds.LEFT_ALONE.items())
    inside = sorted({*kinds.CLOSED_ROOTS, *(f"{name}*" for name in kinds.CLOSED_TORCH)})
    return "".join(
        (
            BACK_HEAD,
            *rows,
            PREDICT,
            SHARDED,
            "\n## Left alone\n\nLinks between objects, which are made anew, and live things of a process:\n\n",
            *alone,
            f"\nObjects of these packages are never looked into: {_code(inside)}; nor, of Lightning, those whose module has ",
            f"one of {_code(kinds.CLOSED)} in its name, and what derives from its {_code(kinds.CLOSED_BASES)}.\n",
        )
    )


def _types(kind: kinds.Kind) -> str:
    return _code(_spelled(cls) for cls in kinds.types_of(kind)) or "everything else with attributes"


def _spelled(cls: type) -> str:
    public = [part for part in cls.__module__.split(".") if not part.startswith("_") and part != "builtins"]
    return ".".join([*public, cls.__qualname__])


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
