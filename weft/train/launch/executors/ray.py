"""Workers on a Ray cluster."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from weft.train.launch.executors import base
from weft.train.launch.worker import LaunchError


def _run_worker(command: list[str], log: str, env_vars: dict[str, str]) -> int:
    """What a Ray task does: it runs a worker, which ends when the task does.

    It is sent to the node as code, so that Ray's processes need not find weft.
    """
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [*command, "--end-with-parent"],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env=os.environ | env_vars,
            start_new_session=True,
        )
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _import_ray() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise LaunchError("the executor Ray needs the package ray: pip install ray") from None


class RayHandle(base.Handle):
    """A Ray task that runs a worker."""

    def __init__(self, folder: pathlib.Path, ray: Any, reference: Any) -> None:
        super().__init__(folder)
        self._ray, self._reference = ray, reference

    def poll(self) -> int | None:
        """The worker's exit code; None while the task waits or runs."""
        done, _ = self._ray.wait([self._reference], timeout=0)
        if not done:
            return None
        try:
            return int(self._ray.get(done[0]))
        except self._ray.exceptions.RayError:  # the node or its process was lost, or cancelled
            return -int(signal.SIGKILL)

    def stop(self) -> None:
        """Cancel the task, and with it its worker."""
        self._ray.cancel(self._reference, force=True)
        self._ray.wait([self._reference], timeout=30)


@dataclasses.dataclass(frozen=True)
class Ray(base.Executor):
    """Tasks of a Ray cluster, each of which runs a worker on some node.

    The experiment's folder has to be on a file system that nodes share, with the same Python. Ray
    places runs where there is room. Workers end with the launcher, and the next one resumes them.

    Args:
        address: the cluster, as ``"auto"``; by default the one that ``RAY_ADDRESS`` or an earlier
            ``ray.init`` names, or else one of this machine alone.
        cpus: cores of a run, which Ray counts.
        gpus: GPUs of a run.
        memory: memory of a run, as ``"4GB"``, which Ray counts.
        resources: further resources by name.
        python: the interpreter on the nodes; this one by default.
        max_parallel: how many tasks may wait or run at once.

    Example:
        >>> Ray(cpus=2, gpus=1, resources={"fast_disk": 0.5}).resources
        (('fast_disk', 0.5),)
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    memory: int | str | None = None
    resources: Mapping[str, float] | Sequence[tuple[str, float]] = ()
    python: str | None = None
    max_parallel: int | None = None

    def __post_init__(self) -> None:
        base.positive("max_parallel", self.max_parallel)
        base.bytes_of(self.memory)
        if not self.cpus >= 0 or not self.gpus >= 0:
            raise ValueError(f"cpus and gpus cannot be negative: {self.cpus!r}, {self.gpus!r}")
        object.__setattr__(self, "resources", tuple(dict(self.resources).items()))

    @property
    def capacity(self) -> int | None:
        """How many tasks may wait or run at once."""
        return self.max_parallel

    def start(self, task: base.Task) -> base.Handle:
        """Give Ray a task that runs a worker."""
        ray = _import_ray()
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False)
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        options: dict[str, Any] = {
            "name": task.name,
            "num_cpus": self.cpus,
            "num_gpus": self.gpus,
            "max_retries": 0,  # the launcher decides what is begun again
            "resources": dict(self.resources) or None,
        }
        if memory := base.bytes_of(self.memory):
            options["memory"] = memory
        remote = ray.remote(_run_worker).options(**options)
        log = os.fspath(task.folder / "launch.log")
        reference = remote.remote(task.command(python=self.python), log, dict(task.env_vars))
        return RayHandle(task.folder, ray, reference)
