"""A rank's first meeting with the others is told, wherever the script takes torch's function from."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import textwrap

import pytest

from gpulayer.runtime import meeting

TOLD = """
    import json, sys
    from gpulayer.runtime import meeting
    told = []
    class Link:
        def joins(self, *, met=False):
            told.append(met)
    {before}
    meeting.tell(Link())
    {after}
    for _ in range(2):
        meet("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
        torch.distributed.destroy_process_group()
    loader = torch.distributed.distributed_c10d.__loader__
    print(json.dumps([told, type(sys.meta_path[0]).__module__, type(loader).__name__]))
"""
IMPORTS = {
    "as most do": "import torch.distributed; meet = torch.distributed.init_process_group",
    "by name": "import torch; from torch.distributed import init_process_group as meet",
    "from its home": "import torch; from torch.distributed.distributed_c10d import init_process_group as meet",
}


def run(before: str, after: str) -> list[object]:
    code = textwrap.dedent(TOLD).format(before=before, after=after)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_the_names_of_torch_are_where_we_look_for_them() -> None:
    home = importlib.import_module(meeting.HOME)
    package = importlib.import_module(meeting.PACKAGE)
    assert getattr(home, meeting.MEETS) is getattr(package, meeting.MEETS)


@pytest.mark.parametrize("how", IMPORTS)
def test_a_meeting_is_told_before_and_after(how: str) -> None:
    told, finder, loader = run("", IMPORTS[how])
    assert told == [False, True] * 2
    assert not str(finder).startswith("gpulayer.runtime")
    assert loader == "SourceFileLoader"


def test_a_torch_that_was_imported_before_tells_as_well() -> None:
    told, _, _ = run("import torch.distributed", IMPORTS["as most do"])
    assert told == [False, True] * 2
