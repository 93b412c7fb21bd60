"""The environment of a job's processes, made from the host's."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

from gpulayer.spec.records import Order
from gpulayer.spec.workers import Capabilities
from gpulayer.worker.layout import TaskFolders

_OF_CLUSTERS = (
    *("SLURM_*", "SLURMD_*", "SBATCH_*", "SRUN_*", "PMI_*", "PMIX*", "OMPI_*", "MPI_*", "MPIR_*", "MV2_*", "I_MPI_*"),
    *("LSB_*", "LSF_*", "HYDRA_*", "JSM_*", "PBS_*", "SGE_*", "FLUX_*", "COBALT_*", "KUBEFLOW_*"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NUM_NODES", "NNODES"),
    *("TORCHELASTIC_*", "TORCH_ELASTIC_*", "TORCHRUN_*", "PET_*", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    *("JOB_COMPLETION_INDEX", "TF_CONFIG", "XRT_*"),
)
_OF_THE_MACHINE = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ"),
    *("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH"),
    *("CUDA_*", "NVIDIA_*", "NCCL_*", "GLOO_*", "UCX_*", "FI_*", "ROCM_*", "HIP_*"),
    *("XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
"""What a job finds of the environment of a worker that serves many: where programs, caches, devices, networks and certificates
are. All else is the business of whoever started the worker, and may be a password. docs/how-to/secrets.md names them."""
_OF_OURS = "GPULAYER_*"
_KEPT = frozenset({"GPULAYER_HOME", "GPULAYER_URL", "GPULAYER_TOKEN", "GPULAYER_LOG_LEVEL", "GPULAYER_PROFILE"})
_LEAST_SHUTDOWN_S = 5


def clean(host: Mapping[str, str]) -> dict[str, str]:
    """Drop what another cluster, launcher or job of ours said to the host."""
    patterns = (*_OF_CLUSTERS, _OF_OURS)
    return {
        name: value
        for name, value in host.items()
        if name in _KEPT or not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }


def of_machine(host: Mapping[str, str]) -> dict[str, str]:
    """Return what a worker that isn't the caller's own gives of its environment to jobs."""
    return {
        name: value for name, value in host.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in _OF_THE_MACHINE)
    }


def of_task(order: Order, where: TaskFolders, host: Mapping[str, str], worker_name: str, can: Capabilities) -> dict[str, str]:
    """Make the environment of a task: the host's, cleaned; our defaults; the job's own; what we say to the job."""
    spec = order.spec
    asked = {**clean(host), **spec.env}
    defaults = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **_interfaces(can), **_shutdown(spec.grace_s)}
    said = {
        "GPULAYER_JOB_ID": order.job_id,
        "GPULAYER_ATTEMPT": str(order.attempt),
        "GPULAYER_NODE_RANK": str(order.node_rank),
        "GPULAYER_OUTPUT_DIR": str(where.work),
        "GPULAYER_INPUT_DIR": str(where.input),
        "GPULAYER_TASK_DIR": str(where.root),
        "GPULAYER_SOCKET": str(where.socket),
        "GPULAYER_PIPES": str(where.pipes),
        "GPULAYER_WORKER_NAME": worker_name,
        "TMPDIR": spec.env.get("TMPDIR", str(where.tmp)),
        **({} if spec.calls is None else {"GPULAYER_CALLS": spec.calls.model_dump_json()}),
        **({"GPULAYER_STRAGGLER_GRACE_S": str(spec.straggler_grace_s)} if spec.kind == "distributed" else {}),
        **({"GPULAYER_SECRETS": ",".join(spec.secrets)} if spec.secrets else {}),
        **_visible_devices(order, asked, can),
    }
    return {**defaults, **asked, **said}


def shielded(env: Mapping[str, str]) -> dict[str, str]:
    """Keep files in the job's cwd from shadowing ours until the runtime has been imported; it undoes this."""
    asked = env.get("PYTHONSAFEPATH")
    return {**env, "PYTHONSAFEPATH": "1", **({"GPULAYER_USER_SAFEPATH": asked} if asked else {})}


def _interfaces(can: Capabilities) -> dict[str, str]:
    """Name one interface to both libraries: NCCL reads a bare name as a prefix, so it gets the exact form."""
    if not can.interface:
        return {}
    family = {"NCCL_SOCKET_FAMILY": "AF_INET6"} if ":" in (can.advertise_address or "") else {}
    return {"GLOO_SOCKET_IFNAME": can.interface, "NCCL_SOCKET_IFNAME": f"={can.interface}", **family}


def _shutdown(grace_s: float) -> dict[str, str]:
    """torchrun kills the ranks that SIGTERM did not end after this; the guard's own deadline comes first when it is shorter."""
    return {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(_LEAST_SHUTDOWN_S, int(grace_s) + 1))}


def _visible_devices(order: Order, asked: Mapping[str, str], can: Capabilities) -> dict[str, str]:
    """Show the devices that the task leased and no others."""
    cuda = [device for device in order.devices if device.kind == "cuda"]
    if cuda:
        return {"CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in cuda)}
    if can.devices and "CUDA_VISIBLE_DEVICES" not in order.spec.env:
        return {"CUDA_VISIBLE_DEVICES": ""}
    return {}
