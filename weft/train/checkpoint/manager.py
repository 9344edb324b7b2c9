"""Checkpoints of the steps of a training in one folder, written while it goes on."""

import os
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import weft
from weft.experimental import multihost_utils
from weft.train.checkpoint import files, manifest, restoring, sources, writing
from weft.train.checkpoint.errors import CheckpointError
from weft.train.checkpoint.policy import Keep, Saved

_STEP = re.compile(r"step_([0-9]{1,18})(?:-([0-9]{1,9}))?")
_NAME_BYTES = 256


class CheckpointManager:
    """Saves and restores the checkpoints of a training.

    Every checkpoint is a folder ``step_N`` with safetensors files and a manifest. It appears when
    all of it is on the disk; a process that is killed leaves nothing that looks like one.

    Args:
        folder: where the checkpoints are; made if it is not there.
        keep: which of them stay: a number of the last ones, a ``Keep``, or None for all.
        asynchronous: whether ``save`` returns once it has a snapshot, and a thread writes it.
        save_every_steps: ``should_save`` says yes at multiples of this step.
        save_every_seconds: ``should_save`` says yes when the last save is this long ago.
        timeout: for how many seconds processes wait for each other's files.

    Example:
        >>> import tempfile, weft.numpy as jnp
        >>> with CheckpointManager(tempfile.mkdtemp(), keep=2) as manager:
        ...     for step in range(4):
        ...         metrics = {"loss": 1.0 / (step + 1)}
        ...         _ = manager.save(step, {"w": jnp.full(2, step)}, metrics=metrics)
        >>> manager.all_steps(), manager.latest_step(), manager.best_step("loss")
        ([2, 3], 3, 3)
        >>> manager.restore()
        {'w': Array([3, 3], dtype=int32...)}
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        keep: int | Keep | None = None,
        *,
        asynchronous: bool = True,
        save_every_steps: int | None = None,
        save_every_seconds: float | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.folder = os.path.abspath(os.fspath(folder))
        self.keep = keep if isinstance(keep, Keep) else Keep(last=keep)
        self.asynchronous = asynchronous
        self.save_every_steps, self.save_every_seconds = save_every_steps, save_every_seconds
        self.timeout = timeout
        self._last_save = time.monotonic()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._known: dict[str, Saved] = {}  # by the folder's name
        self._cleaned = False
        os.makedirs(self.folder, exist_ok=True)

    def __enter__(self) -> "CheckpointManager":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    # --- what is there ---

    def _folders(self) -> dict[int, str]:
        """The names of folders with a manifest by step; of several of a step, the newest."""
        found: dict[int, tuple[int, str]] = {}
        for name in os.listdir(self.folder):
            matched = _STEP.fullmatch(name)
            if matched and os.path.isfile(os.path.join(self.folder, name, manifest.FILE)):
                step, version = int(matched[1]), int(matched[2] or 0)
                found[step] = max(found.get(step, (-1, "")), (version, name))
        return {step: found[step][1] for step in sorted(found)}

    def _saved(self) -> list[Saved]:
        """What is known of the checkpoints that can be read; damaged ones are left out."""
        listed = []
        for name in self._folders().values():
            if name not in self._known:
                try:
                    record = sources.read_manifest(os.path.join(self.folder, name))
                except CheckpointError:
                    continue
                self._known[name] = Saved(record.step, record.created, record.metrics)
            listed.append(self._known[name])
        return listed

    def all_steps(self) -> list[int]:
        """The steps that have a checkpoint, in order."""
        return list(self._folders())

    def latest_step(self) -> int | None:
        """The last step that has a checkpoint, or None."""
        return max(self._folders(), default=None)

    def best_step(self, metric: str | None = None, mode: str | None = None) -> int | None:
        """The step with the best metric, or None if no checkpoint has it.

        Args:
            metric: the metric's name; that of ``keep`` by default.
            mode: ``"min"`` or ``"max"``; that of ``keep`` by default.
        """
        name = metric or self.keep.metric
        if name is None:
            raise ValueError("name a metric: best_step('loss'), or Keep(best=1, metric='loss')")
        rule = Keep(best=1, metric=name, mode=mode or self.keep.mode)
        return next(iter(rule.ranked(self._saved())), None)

    def path(self, step: int) -> str:
        """The folder of a step's checkpoint."""
        found = self._folders()
        if step not in found:
            steps = ", ".join(map(str, found)) or "none"
            raise CheckpointError(
                f"{self.folder} has no checkpoint for step {step}; it has {steps}"
            )
        return os.path.join(self.folder, found[step])

    def manifest(self, step: int | None = None) -> manifest.Manifest:
        """What a checkpoint holds, without its arrays: leaves, metrics, metadata.

        Args:
            step: the step; the last one by default.
        """
        return sources.read_manifest(self.path(self._step(step)))

    def _step(self, step: int | None) -> int:
        if step is None:
            step = self.latest_step()
        if step is None:
            raise CheckpointError(f"{self.folder} has no checkpoint")
        return step

    # --- saving ---

    def should_save(self, step: int) -> bool:
        """Whether a step is one to save at, by ``save_every_steps`` and ``save_every_seconds``.

        All processes get the answer of the first. Without either rule, every step is one.

        Args:
            step: the training step.
        """
        steps, seconds = self.save_every_steps, self.save_every_seconds
        if steps is None and seconds is None:
            return True
        due = steps is not None and step % steps == 0
        if seconds is not None:
            due = due or time.monotonic() - self._last_save >= seconds
            if weft.process_count() > 1:
                due = bool(multihost_utils.broadcast_one_to_all(np.array(due)))
        return due

    def save(
        self,
        step: int,
        tree: Any,
        metrics: Mapping[str, Any] | None = None,
        *,
        metadata: Any = None,
        overwrite: bool = False,
    ) -> str:
        """Save a tree as the checkpoint of a step.

        A save that is still being written is waited for. Of several processes, all call this.

        Args:
            step: the training step, 0 or more.
            tree: any pytree of arrays, random keys and Python scalars.
            metrics: numbers by name, for ``best_step`` and ``Keep``.
            metadata: anything that JSON can hold.
            overwrite: whether a checkpoint of this step may be replaced.

        Returns:
            The folder that the checkpoint will have.
        """
        self.wait()
        if type(step) is not int and not isinstance(step, np.integer):
            raise TypeError(f"step must be an integer, got {step!r:.80}; write int(state.step)")
        step, existing = int(step), self._folders()
        if step < 0:
            raise ValueError(f"step={step}: a step can't be negative")
        if step in existing and not overwrite:
            raise CheckpointError(
                f"{self.folder} already has a checkpoint for step {step}; pass overwrite=True to "
                "replace it"
            )
        first = weft.process_index() == 0
        if first and not self._cleaned:
            writing.clean(self.folder)
            self._cleaned = True
        name = f"step_{step}"
        if step in existing:  # under a new name: the old one stays until the new one is whole
            matched = _STEP.fullmatch(existing[step])
            name += f"-{int(matched[2] or 0) + 1 if matched else 1}"
        temporary = os.path.join(self.folder, self._agree(name))
        numbers = {key: float(value) for key, value in (metrics or {}).items()}
        taken = writing.snapshot(tree, first, copy=self.asynchronous)
        record = manifest.Manifest(
            step, taken.tree, taken.leaves, {}, numbers, metadata, time.time()
        )
        manifest.encode(record)  # metadata that is not JSON is refused here, not in the thread
        job = _Job(temporary, os.path.join(self.folder, name), taken, record, self.timeout)
        self._last_save = time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(job,), name="weft-checkpoint")
        try:
            self._thread.start()
        except RuntimeError:  # the system has no thread left: written here
            self._run(job)
        if not self.asynchronous:
            self.wait()
        return job.final

    def _agree(self, name: str) -> str:
        """The temporary name of the first process; all have to be at the same step."""
        temporary = writing.temporary_name(name, "saving")
        if weft.process_count() == 1:
            return temporary
        multihost_utils.assert_equal(
            np.frombuffer(name.encode().ljust(_NAME_BYTES), np.uint8),
            "CheckpointManager.save: processes are at different steps or see different folders",
        )
        own = np.frombuffer(temporary.encode().ljust(_NAME_BYTES), np.uint8)
        return multihost_utils.broadcast_one_to_all(own).tobytes().decode().rstrip()

    def _run(self, job: "_Job") -> None:
        try:
            job.write()
            if job.process == 0:
                self._prune()
        except BaseException as error:
            self._error = error

    def _prune(self) -> None:
        """Remove what the rules do not keep, and older versions of what was replaced."""
        current = self._folders()
        kept = self.keep.chosen(self._saved())
        for name in os.listdir(self.folder):
            matched = _STEP.fullmatch(name)
            step = int(matched[1]) if matched else -1
            replaced = step in current and current[step] != name
            known = name in self._known or (replaced and self._is_whole(name))
            if known and (replaced or step not in kept):
                writing.remove(os.path.join(self.folder, name))
                self._known.pop(name, None)

    def _is_whole(self, name: str) -> bool:
        try:
            sources.read_manifest(os.path.join(self.folder, name))
        except CheckpointError:
            return False
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the last save is on the disk; raises what its writing raised.

        Args:
            timeout: seconds to wait at most; TimeoutError after that. The save goes on.
        """
        thread = self._thread
        if thread is None:
            return
        if thread.ident is not None:  # it was begun
            thread.join(timeout)
        if thread.is_alive():
            raise TimeoutError(f"the checkpoint is not written after {timeout:g} seconds")
        self._thread, error, self._error = None, self._error, None
        if weft.process_count() > 1:
            failed = multihost_utils.process_allgather(np.array(error is not None))
            if error is None and failed.any():
                process = int(np.flatnonzero(failed)[0])
                raise CheckpointError(f"process {process} could not write its part of a checkpoint")
        if error is not None:
            raise error

    def close(self) -> None:
        """Wait for the last save. The manager can be used again."""
        self.wait()

    # --- restoring ---

    def restore(
        self,
        step: int | None = None,
        target: Any = None,
        *,
        at: str = "",
        dtype: restoring.DTypes = None,
        sharding: restoring.Shardings = None,
        names: restoring.Names | None = None,
        partial: bool = False,
    ) -> Any:
        """Restore the checkpoint of a step, as ``weft.train.checkpoint.restore`` does.

        Args:
            step: the step; the last one by default.
            target: a tree that says shapes, dtypes and devices.
            at: without a target, only the part of the tree at this name.
            dtype: the dtype of floating-point leaves, or a function of name and dtype.
            sharding: where arrays go, or a function of name and shape.
            names: under which name a leaf of the target is stored.
            partial: restore the leaves that both have.

        Returns:
            The tree.
        """
        self.wait()
        path = self.path(self._step(step))
        return files.restore(
            path, target, at=at, dtype=dtype, sharding=sharding, names=names, partial=partial
        )


class _Job:
    """One checkpoint to write: runs in a thread, and speaks with other processes by files."""

    def __init__(
        self,
        temporary: str,
        final: str,
        taken: writing.Snapshot,
        record: manifest.Manifest,
        timeout: float,
    ) -> None:
        self.temporary, self.final, self.taken = temporary, final, taken
        self.record, self.timeout = record, timeout
        self.process, self.count = weft.process_index(), weft.process_count()

    def write(self) -> None:
        """Write this process's part; the first one also makes the checkpoint whole."""
        os.makedirs(self.temporary, exist_ok=True)
        if self.process:
            self._write_part()
            return
        try:
            parts, found = writing.write_blocks(self.temporary, 0, self.taken)
            writing.collect(self.temporary, self.count, parts, found, self.timeout)
            leaves = writing.with_parts(self.taken, parts)
            record = manifest.Manifest(
                self.record.step, self.record.tree, leaves, found, self.record.metrics,
                self.record.metadata, self.record.created,
            )  # fmt: skip
            writing.commit(self.temporary, self.final, record)
        except BaseException:
            if os.path.isdir(self.temporary):
                writing.discard(self.temporary)
            raise

    def _write_part(self) -> None:
        try:
            parts, found = writing.write_blocks(self.temporary, self.process, self.taken)
        except BaseException as error:
            writing.publish(self.temporary, self.process, {}, {}, f"{error}")
            raise
        writing.publish(self.temporary, self.process, parts, found)
