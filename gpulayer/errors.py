"""Every error that GPUlayer raises, as one tree with stable wire codes.

GPULayerError
├── InvalidJob                what was asked for can't be asked for
│   ├── DistributedMPS, NcclWithoutCuda, MoreProcsThanGpus, DistributedRetries
│   ├── InvalidCount, InvalidEnvName, InvalidSpecifier, InvalidRequirement, InvalidFunctionValue, EntrypointMissing
│   └── BundleError ── BundleTooLarge, LinkLeavesRoot, UnsafeArchive
├── Unschedulable             no registered worker could ever run it
├── NotFound ── JobNotFound, WorkerNotFound, ArtifactNotFound, BlobNotFound, AmbiguousId
├── UnsafePath                a file's name that leads out of the folder it is for
├── StaleReport               a report of a passed attempt or of a fenced worker
├── MessageTooLarge           between two processes of one machine
├── HomeError ── HomeUnwritable, HomeTooNew, HomeOnNetworkFilesystem, HomeDamaged, HomeBusy, DiskFull
├── PlaneError                a self-hosted plane did not do what was asked of it
│   ├── Unauthorized ── WorkerRemoved
│   ├── Forbidden, PlaneUnreachable, PlaneBusy, BadRequest, InsecureUrl, NameTaken
│   └── TokenNotFound, DatabaseUnusable, ServerRefused, LogFull
├── SecretError ── SecretNotFound, InvalidSecret
├── PlaneFromChild            a forked child used its parent's plane
├── StaleModule               weights that stayed with a job were used at its caller
├── WorkerStartFailed         a local worker did not come up
├── UnsupportedPlatform, UnsupportedLightning
├── CallRefused               a Trainer call that can't become a job
│   ├── NobodyStays, ScriptUnavailable, CallFromChild, CallFromThread
│   └── CallsDiverged         caller and ranks met at different calls
└── JobFailed                 the job ended, and not well
    ├── RemoteError           the user's exception, where its class can't be rebuilt here
    ├── JobCancelled, JobTimedOut, JobLost, WorkerLost
    └── PreparationFailed, RendezvousFailed, Straggler
"""

from __future__ import annotations

from typing import Any, ClassVar


class GPULayerError(Exception):
    """Base of the tree: a sentence, the facts behind it, and the next step.

    ``code`` is stable and travels on the wire; ``facts`` is plain data that JSON can hold.
    """

    code: ClassVar[str] = "error"
    fix: ClassVar[str] = ""

    def __init__(self, sentence: str, *, next_step: str | None = None, **facts: Any) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.next_step = self.fix if next_step is None else next_step
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.sentence} {self.next_step}".strip()

    def to_wire(self) -> dict[str, Any]:
        """Return what ``from_wire`` on the other side makes the same error of."""
        return {"code": self.code, "sentence": self.sentence, "next_step": self.next_step, "facts": self.facts}


class InvalidJob(GPULayerError):
    code = "invalid_job"


class DistributedMPS(InvalidJob):
    code = "distributed_mps"
    fix = "Use one process (num_nodes=1, devices=1) on MPS, or accelerator cpu or cuda."


class NcclWithoutCuda(InvalidJob):
    code = "nccl_without_cuda"
    fix = "Use backend='gloo', or ask for accelerator='cuda'."


class MoreProcsThanGpus(InvalidJob):
    code = "more_procs_than_gpus"
    fix = "Ask for as many GPUs per worker as processes, or for fewer processes."


class DistributedRetries(InvalidJob):
    code = "distributed_retries"
    fix = "Write checkpoints, and run it again: ckpt_path='last' goes on from the newest complete one."


class InvalidCount(InvalidJob):
    code = "invalid_count"
    fix = "Give a number above zero."


class InvalidEnvName(InvalidJob):
    code = "invalid_env_name"
    fix = "Environment names are letters, digits and underscores, and don't begin with a digit."


class InvalidSpecifier(InvalidJob):
    code = "invalid_specifier"
    fix = "Write it as pip would, for example '>=2.2,<3'."


class InvalidRequirement(InvalidJob):
    code = "invalid_requirement"
    fix = "Write a package as pip reads it: name, or name>=1.2."


class InvalidFunctionValue(InvalidJob):
    code = "invalid_function_value"
    fix = "Pass JSON values, and name the function as 'module:function'."


class EntrypointMissing(InvalidJob):
    code = "entrypoint_missing"
    fix = "Name a script inside the source folder, or '-m package.module', or 'module:function'."


class BundleError(InvalidJob):
    code = "bundle"


class BundleTooLarge(BundleError):
    code = "bundle_too_large"
    fix = "Leave files out with .gpulayerignore, or name a smaller source_dir. `gpulayer package --explain` lists all."


class LinkLeavesRoot(BundleError):
    code = "link_leaves_root"
    fix = "Copy the file into the source folder, or add the link to .gpulayerignore."


class UnsafeArchive(BundleError):
    code = "unsafe_archive"
    fix = "Make the bundle with GPUlayer; it was not unpacked."


class UnsafePath(GPULayerError):
    code = "unsafe_path"
    fix = "Nothing was written there; don't trust the worker that the file came from."


class Unschedulable(GPULayerError):
    code = "unschedulable"
    fix = "Change what it asks for, start a worker that has it, or let it wait (--queue; in Python on_unschedulable='queue')."


class NotFound(GPULayerError):
    code = "not_found"


class JobNotFound(NotFound):
    code = "job_not_found"
    fix = "`gpulayer jobs ls` lists the jobs of this plane."


class WorkerNotFound(NotFound):
    code = "worker_not_found"
    fix = "`gpulayer workers ls` lists the workers of this plane."


class ArtifactNotFound(NotFound, FileNotFoundError):
    code = "artifact_not_found"
    fix = "`gpulayer artifacts ls ID` lists the files of a job."


class BlobNotFound(NotFound):
    code = "blob_not_found"
    fix = "It may have been collected; run the job again to make it anew."


class AmbiguousId(NotFound):
    code = "ambiguous_id"
    fix = "Write more of the id."


class StaleReport(GPULayerError):
    code = "stale_report"


class MessageTooLarge(GPULayerError):
    code = "message_too_large"
    fix = "Large things travel as files; this one should have."


class HomeError(GPULayerError):
    code = "home"


class HomeUnwritable(HomeError):
    code = "home_unwritable"
    fix = "Point GPULAYER_HOME at a folder that you can write to."


class HomeTooNew(HomeError):
    code = "home_too_new"
    fix = "Upgrade gpulayer, or point GPULAYER_HOME at another folder. Nothing was changed."


class HomeOnNetworkFilesystem(HomeError):
    code = "home_on_network_filesystem"
    fix = "Point GPULAYER_HOME at a local disk; a shared plane is `gpulayer server start`."


class HomeDamaged(HomeError):
    code = "home_damaged"
    fix = "Move the folder away and start with a fresh GPULAYER_HOME; artifacts/ in it stays readable."


class HomeBusy(HomeError):
    code = "home_busy"
    fix = "Another program holds the home's database for long; `fuser plane.db` names it."


class PlaneError(GPULayerError):
    code = "plane"


class Unauthorized(PlaneError):
    code = "unauthorized"
    fix = "Set GPULAYER_TOKEN to a token of this plane; an admin makes one with `gpulayer tokens create`."


class WorkerRemoved(Unauthorized):
    """A worker's own key after an admin took the worker out; what it still has to say is heard by nobody."""

    code = "worker_removed"
    fix = "To be a worker again, it joins anew with a new join token."


class Forbidden(PlaneError):
    code = "forbidden"
    fix = "Ask for a token whose role may do this."


class NameTaken(PlaneError):
    """Two live workers of one name: people could not say which of them they mean."""

    code = "name_taken"
    fix = "Give this one another --name; or, if the other never comes back: gpulayer workers rm ID."


class PlaneUnreachable(PlaneError):
    code = "plane_unreachable"
    fix = "Check GPULAYER_URL, and that `gpulayer server start` runs there; <url>/healthz answers without a token."


class PlaneBusy(PlaneError):
    """Too much was asked at once; ``facts`` holds ``retry_after_s``."""

    code = "plane_busy"
    fix = "Ask again in a moment."


class BadRequest(PlaneError):
    code = "bad_request"


class InsecureUrl(PlaneError):
    code = "insecure_url"
    fix = "Name the plane with https://; GPULAYER_INSECURE=1 sends the token all the same."


class TokenNotFound(PlaneError):
    code = "token_not_found"
    fix = "`gpulayer tokens ls` lists the tokens of this plane."


class DatabaseUnusable(PlaneError):
    code = "database_unusable"
    fix = "Check --database, and that the server there runs and lets this user in."


class ServerRefused(PlaneError):
    """A server that would not be safe, or not alone, does not start."""

    code = "server_refused"


class LogFull(PlaneError):
    """Of what a job prints from here on nothing is kept, so nothing more needs to be sent."""

    code = "log_full"
    fix = "An admin sets how much is kept of one job: `gpulayer server start --max-log-lines N --max-log-gb N`."


class SecretError(GPULayerError):
    code = "secret"


class SecretNotFound(SecretError):
    code = "secret_not_found"
    fix = "`gpulayer secrets ls` lists the secrets of this plane; `gpulayer secrets set NAME` stores one."


class InvalidSecret(SecretError):
    code = "invalid_secret"
    fix = "A secret's name can name an environment variable, and its value has at least 8 characters."


class PlaneFromChild(GPULayerError):
    code = "plane_from_child"
    fix = "Open the plane anew in this process."


class DiskFull(HomeError):
    code = "disk_full"
    fix = "Free some space (`gpulayer jobs rm ID` removes a job's files), or move GPULAYER_HOME."


class WorkerStartFailed(GPULayerError):
    code = "worker_start_failed"


class UnsupportedPlatform(GPULayerError):
    code = "unsupported_platform"
    fix = "GPUlayer runs on Linux, and on macOS as far as it goes."


class UnsupportedLightning(GPULayerError):
    code = "unsupported_lightning"
    fix = "Install a supported version: lightning>=2.4,<2.7."


class StaleModule(GPULayerError):
    code = "stale_module"
    fix = "gpulayer.fetch(trainer) brings them home."


class CallRefused(GPULayerError):
    code = "call_refused"


class NobodyStays(CallRefused):
    code = "nobody_stays"
    fix = "Start workers with `gpulayer up`, or name a plane that has some with GPULAYER_URL."


class ScriptUnavailable(CallRefused):
    code = "script_unavailable"
    fix = "Put the code into a file and run that: the job runs the same script on every rank."


class CallFromChild(CallRefused):
    code = "call_from_child"
    fix = "Call fit, validate, test and predict in the process that started the script."


class CallFromThread(CallRefused):
    code = "call_from_thread"
    fix = "Wait for the running call to end; the calls of a script go one after the other."


class CallsDiverged(CallRefused):
    code = "calls_diverged"
    fix = "Every rank must make the same calls in the same order as the script did here."


class JobFailed(GPULayerError):
    """A job ended without success; ``facts`` holds job_id, state, reason, rank and node_rank where known."""

    code = "job_failed"
    fix = "`gpulayer jobs logs ID` shows what every rank printed."


class RemoteError(JobFailed):
    code = "remote_error"


class JobCancelled(JobFailed):
    code = "job_cancelled"
    fix = ""


class JobTimedOut(JobFailed):
    code = "job_timed_out"
    fix = "Give it a longer timeout_s."


class JobLost(JobFailed):
    code = "job_lost"


class WorkerLost(JobFailed):
    code = "worker_lost"
    fix = "Run it again; ckpt_path='last' goes on from the newest complete checkpoint."


class PreparationFailed(JobFailed):
    code = "preparation_failed"
    fix = ""


class RendezvousFailed(JobFailed):
    code = "rendezvous_failed"
    fix = "Every node must reach rank 0's advertise address and port; see docs/explanation/architecture.md."


class Straggler(JobFailed):
    code = "straggler"


def _tree(root: type[GPULayerError]) -> list[type[GPULayerError]]:
    found = [root]
    for child in root.__subclasses__():
        found += _tree(child)
    return found


def by_code() -> dict[str, type[GPULayerError]]:
    """Map every wire code to its class."""
    return {cls.code: cls for cls in reversed(_tree(GPULayerError))}


def from_wire(wire: dict[str, Any]) -> GPULayerError:
    """Make the error that ``to_wire`` described; a code of a newer version becomes the base class."""
    cls = by_code().get(str(wire.get("code")), GPULayerError)
    return cls(str(wire.get("sentence", "")), next_step=str(wire.get("next_step", "")), **dict(wire.get("facts") or {}))
