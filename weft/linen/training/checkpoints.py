"""Checkpoints as files: one a step, in the MessagePack format that ``flax.training`` reads too.

What flax leaves to Orbax (folders, arrays of several processes) is not here.
"""

import contextlib
import math
import os
import re
import secrets
import stat
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from weft.extend.source_info_util import warn
from weft.linen import core, serialization
from weft.linen.errors import InvalidCheckpointError

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_SIGNED, _UNSIGNED = re.compile(f"([-+]?{_NUMBER})"), re.compile(f"({_NUMBER})")
_SCHEME = re.compile("[a-z][a-z0-9.+-]+://", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*)_\d+")
# What a file is called while it is written, and the seconds after which one that nobody has written
# to is that of a process that was killed.
_UNFINISHED = re.compile(r"\..+\.[0-9a-z_]{8}")
STALE_SECONDS = 3600


class AsyncManager:
    """Writes checkpoints in the background: pass one to all calls of ``save_checkpoint``."""

    def __init__(self, max_workers: int = 1):
        self._max_workers = max_workers
        self.executor = ThreadPoolExecutor(max_workers)
        self.save_future: Future | None = None

    def wait_previous_save(self) -> None:
        """Wait until the last checkpoint is on disk; raises what its writing raised."""
        future, self.save_future = self.save_future, None
        if future is not None:
            future.result()

    def save_async(self, task) -> None:
        """Run a task in the background, after the one before it."""
        self._make_room()
        try:
            self.save_future = self.executor.submit(task)
        except RuntimeError:  # the system has no thread left: run here, and not once more later
            self.executor.shutdown(wait=False, cancel_futures=True)
            self.executor = ThreadPoolExecutor(self._max_workers)
            task()

    def _make_room(self) -> None:
        """Wait for the last checkpoint, which nobody asked for, and say so."""
        if self.save_future is not None and not self.save_future.done():
            warn("waiting for the previous checkpoint to be written")
        self.wait_previous_save()


def natural_sort(file_list, signed: bool = True) -> list[str]:
    """Names in the order of the numbers in them.

    >>> natural_sort(["step_10", "step_9", "step_-1"])
    ['step_-1', 'step_9', 'step_10']
    """
    numbers = _SIGNED if signed else _UNSIGNED

    def key(name):
        parts = numbers.split(name)  # text and numbers in turn
        return [float(part) if i % 2 else part for i, part in enumerate(parts)]

    return sorted(file_list, key=key)


def safe_normpath(path: str) -> str:
    """A path without what says nothing in it; a scheme such as ``gs://`` stays."""
    found = _SCHEME.match(path)
    scheme = found.group() if found else ""
    return scheme + os.path.normpath(path[len(scheme) :])


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value:
            raise ValueError(f"{name} is an Orbax option, which weft does not use; leave it out")


def _steps(folder: str, prefix: str) -> dict[float, str]:
    """The paths of checkpoints by their steps, in order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return {}
    found = {}
    for name in names:
        if name.startswith(prefix) and _SIGNED.fullmatch(name[len(prefix) :]):
            step = float(name[len(prefix) :])
            if math.isfinite(step):
                found[step] = os.path.join(folder, name)
    return dict(sorted(found.items()))


def _write(path: str, data: bytes) -> None:
    """Write a file that is there as a whole or not at all, also where the power fails.

    Who may read it is what the umask says.
    """
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Have the names of a folder on disk, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_unfinished(folder: str, prefix: str) -> None:
    """Remove what processes that were killed have left of checkpoints."""
    for name in os.listdir(folder):
        if name.startswith(f".{prefix}") and _UNFINISHED.fullmatch(name):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):  # another process may be as far
                if time.time() - os.stat(path).st_mtime > STALE_SECONDS:
                    os.unlink(path)


def _clean(folder: str, prefix: str, step: float, keep: int, every: float | None) -> None:
    """Remove later checkpoints, and old ones but for the last ``keep`` and one in ``every``."""
    found = _steps(folder, prefix)
    late = [s for s in found if s > step]
    early = [s for s in found if s <= step][:-keep]
    kept = float("-inf")
    for s in [*early, *late]:
        if s <= step and every and s - kept >= every:
            kept = s
        else:
            os.remove(found[s])


def save_checkpoint(
    ckpt_dir,
    target,
    step,
    prefix: str = "checkpoint_",
    keep: int = 1,
    overwrite: bool = False,
    keep_every_n_steps: int | None = None,
    async_manager: AsyncManager | None = None,
    orbax_checkpointer=None,
) -> str:
    """Write a pytree to the file of a step, whose path is returned, and remove older ones.

    The last ``keep`` checkpoints stay, and of those before one in ``keep_every_n_steps``. Without
    ``overwrite`` there must be none of this step or a later one; with it, later ones are removed.
    """
    _refuse(orbax_checkpointer=orbax_checkpointer)
    if not math.isfinite(float(step)):
        raise ValueError(f"the step of a checkpoint is a finite number, got {step}")
    if keep < 1:
        raise ValueError(f"keep={keep}: keep must be at least 1")
    if async_manager is not None:
        async_manager._make_room()
    folder = safe_normpath(os.fspath(ckpt_dir))
    path = os.path.join(folder, f"{prefix}{step}")
    last = max(_steps(folder, prefix), default=None)
    if not overwrite and last is not None and last >= float(step):
        raise InvalidCheckpointError(path, step)
    data = serialization.to_bytes(target)

    def task() -> None:
        _write(path, data)
        _clean(folder, prefix, float(step), keep, keep_every_n_steps)
        _remove_unfinished(folder, prefix)

    if async_manager is None:
        task()
    else:
        async_manager.save_async(task)
    return path


def latest_checkpoint(ckpt_dir, prefix: str = "checkpoint_") -> str | None:
    """The path of the last checkpoint in a folder, or None."""
    return next(reversed(_steps(os.fspath(ckpt_dir), prefix).values()), None)


def available_steps(ckpt_dir, prefix: str = "checkpoint_", step_type: type = int) -> list:
    """The steps that a folder has checkpoints of, in order."""
    return [step_type(step) for step in _steps(os.fspath(ckpt_dir), prefix)]


def restore_checkpoint(
    ckpt_dir,
    target,
    step=None,
    prefix: str = "checkpoint_",
    parallel: bool = True,
    gda_manager=None,
    allow_partial_mpa_restoration: bool = False,
    orbax_checkpointer=None,
    orbax_transforms=None,
    *,
    strict: bool = True,
):
    """A pytree like ``target`` from the checkpoint of a step, or from the last one.

    ``ckpt_dir`` may be the path of a checkpoint. Where there is none, ``target`` is returned as it
    is. Without a target the nested dictionaries of the file are. ``parallel`` makes no difference.
    A checkpoint that does not fit the target raises ValueError with the path of what differs, as
    ``from_state_dict`` says; ``strict=False`` takes what flax takes.
    """
    _refuse(gda_manager=gda_manager, allow_partial_mpa_restoration=allow_partial_mpa_restoration)
    _refuse(orbax_checkpointer=orbax_checkpointer, orbax_transforms=orbax_transforms)
    path: str | None = safe_normpath(os.fspath(ckpt_dir))
    if step is not None:
        path = os.path.join(str(path), f"{prefix}{step}")
        if not os.path.exists(path):
            steps = ", ".join(f"{s:g}" for s in _steps(os.fspath(ckpt_dir), prefix)) or "none"
            raise ValueError(
                f"there is no checkpoint {path}; there are checkpoints of the steps {steps}"
            )
    elif os.path.isdir(str(path)):
        path = latest_checkpoint(path, prefix)
    if path is None or not os.path.exists(path):
        return target
    if os.path.isdir(path):
        raise ValueError(
            f"{path} is a folder, as written by Orbax; this function reads checkpoints that are "
            "single files"
        )
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is a pipe or a device, not a checkpoint file")
    with open(path, "rb") as file:
        state = serialization.msgpack_restore(file.read())
    if target is None:
        return state
    return serialization.from_state_dict(target, state, strict=strict)


def convert_pre_linen(params):
    """Parameters whose submodules are numbered all together, numbered by class instead.

    >>> convert_pre_linen({"Conv_0": 1, "Dense_1": 2})
    {'Conv_0': 1, 'Dense_0': 2}
    """
    if not isinstance(params, (dict, core.FrozenDict)):
        return params
    counts: dict[str, int] = {}
    renamed = {}
    for name in natural_sort(params):
        found, value = _NUMBERED.fullmatch(name), convert_pre_linen(params[name])
        if found:
            kind = found.group(1)
            name = f"{kind}_{counts.setdefault(kind, 0)}"
            counts[kind] += 1
        renamed[name] = value
    return core.freeze(renamed) if isinstance(params, core.FrozenDict) else renamed
