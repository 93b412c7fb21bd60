"""What a call leaves behind: observed before it, collected in the job, applied to the caller's own objects.

In the job: ``Observation`` before the call, ``collect`` after it, ``save`` to a file. At the caller: ``load`` the file, and
``apply`` it to a ``Scene`` of the same objects. Errors travel beside: ``record_error`` and ``rebuild_error``.
"""

from gpulayer.strategies.outcome.apply import Applied, apply, read
from gpulayer.strategies.outcome.bodies import load, save
from gpulayer.strategies.outcome.collect import collect
from gpulayer.strategies.outcome.errors import rebuild_error, record_error
from gpulayer.strategies.outcome.observe import Observation
from gpulayer.strategies.outcome.scene import Scene, users_modules

__all__ = [
    "Applied",
    "Observation",
    "Scene",
    "apply",
    "collect",
    "load",
    "read",
    "rebuild_error",
    "record_error",
    "save",
    "users_modules",
]
