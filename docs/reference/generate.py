"""Writes docs/reference/cli.md, errors.md, settings.md and what-comes-back.md from the code: `make docs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from pydantic import BaseModel

from gpulayer import errors, settings
from gpulayer.cli.main import command
from gpulayer.client.options import JobOptions
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
SETTINGS_HEAD = """# Settings

Made from the code by `make docs`; don't edit.

## Variables

What GPUlayer reads from the environment. Options of the command line go before them.

| variable | what it says |
|---|---|
"""
PROFILES = """
## Profiles

`~/.config/gpulayer/config.toml` (below `XDG_CONFIG_HOME`, where that is set) may hold several planes by name:

```toml
profile = "lab"  # which one is used where none is named

[profiles.lab]
url = "https://plane.lab:8470"
token_file = "lab.token"  # beside this file

[profiles.disk]
home = "/data/gpulayer"
```

`gpulayer --profile disk`, else `GPULAYER_PROFILE`, else the file's own `profile` choose one; variables go before what it says.
Where another URL is named, the profile's token is not used. A profile may say """
IN_JOBS = """
## In a job

Each process of a job finds `GPULAYER_JOB_ID`, `GPULAYER_ATTEMPT` and `GPULAYER_NODE_RANK`; `GPULAYER_OUTPUT_DIR`, the folder
whose files become the job's artifacts (and its working directory is in it), and `GPULAYER_INPUT_DIR`, where its inputs are.
Other variables that begin with `GPULAYER_` are not for programs.

## JobOptions

What `Trainer(job=JobOptions(...))` may say; a dictionary of the same will do.

| option | default | what it says |
|---|---|---|
"""
OPTIONS = {
    "target": "`local`, `remote` or `cloud`; `local` in a home, `remote` where GPULAYER_URL names a plane",
    "fallback_targets": "where else it may run, in this order",
    "workers": "ids or names of the only workers that may run it",
    "worker_labels": "labels that its workers must have",
    "resources": "what each worker must have: accelerator, GPUs, memory, versions",
    "env": "environment variables of its processes; goes before `env_file` and `forward_env`",
    "env_file": "a dotenv file at the caller",
    "forward_env": "names, or patterns of names, of the caller's variables that go along",
    "secrets": "names of the plane's secrets that its processes get as variables",
    "requirements": "packages that the job's Python has beside the worker's own, as pip reads them",
    "requirements_file": "a file of such lines at the caller, or a `pylock.toml`",
    "inputs": "`{uri, path}` of what is put into GPULAYER_INPUT_DIR before it starts",
    "name": 'what people see it as; `ckpt_path="last"` looks for jobs of one name',
    "labels": "words of yours that stay with it",
    "priority": "0 to 100; a higher one is placed first",
    "source_dir": "the folder that travels, instead of the project around the script",
    "timeout_s": "how long it may run",
    "queue_timeout_s": "how long it may wait to be placed",
    "rendezvous_timeout_s": "how long nodes may take to meet",
    "grace_s": "between SIGTERM and SIGKILL when it is stopped",
    "idle_limit_s": "how long ranks hold between two calls",
    "straggler_grace_s": "how long ranks may stand still once another has left the script",
    "caller_lease_s": "how long a self-hosted plane waits for a caller that it doesn't hear",
    "match": "`minor` asks for workers with the caller's Python, torch and Lightning minor versions, `none` for any",
    "on_unschedulable": "`fail` at once when no worker could ever run it, or `queue`",
    "show_ranks": "print what every rank prints, and not rank 0's calls alone",
    "detach": "return when it is submitted; `gpulayer.attach` brings it home",
    "resubmit": "how often a call whose job was broken off from outside is submitted again",
    "fetch": "what comes home after a call: `all`, `best`, `last` or `metrics`",
    "fetch_limit": "outputs of more bytes come as with `best`",
}
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
    return {
        HERE / "cli.md": cli_page(),
        HERE / "errors.md": errors_page(),
        HERE / "settings.md": settings_page(),
        HERE / "what-comes-back.md": back_page(),
    }


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


def settings_page() -> str:
    variables = (f"| `{name}` | {means} |\n" for name, means in settings.VARIABLES.items())
    return "".join((SETTINGS_HEAD, *variables, PROFILES, f"{_code(settings.PROFILE_KEYS)}.\n", IN_JOBS, *_job_options()))


def _job_options() -> Iterator[str]:
    for name, field in JobOptions.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = f"{type(default).__name__}()" if isinstance(default, BaseModel) else repr(default)
        yield f"| `{name}` | `{shown}` | {OPTIONS[name]} |\n"


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
