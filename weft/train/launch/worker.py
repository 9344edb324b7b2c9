"""The process that executes one run: it claims the run's folder, records, and calls the function.

It is started by its path and needs nothing but the standard library, so that a run that does not
use weft starts at once. ``weft.train.launch`` imports it for what both sides share: files that
appear whole, locks, and the configurations in them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import fcntl
import json
import os
import pathlib
import pkgutil
import platform
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
import types
from collections.abc import Iterator
from typing import Any

REFUSED = 75  # the exit code of a worker that finds its run taken: EX_TEMPFAIL of sysexits.h
CLAIM_SECONDS = 2.0  # readers hold the lock for a moment, to see whether a worker does
RANK_SECONDS = 120.0
RECORDED_VARIABLES = ("WEFT_", "JAX_", "XLA_", "OMP_", "OPENBLAS_", "MKL_", "SLURM_JOB", "CUDA_VIS")
RANK_VARIABLES = (
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


class LaunchError(RuntimeError):
    """The error when an experiment, or the folder of one, is not what it has to be.

    >>> from weft.train import launch
    >>> issubclass(launch.LaunchError, Exception)
    True
    """


class LockedError(LaunchError):
    """The error when another process works on the same folder.

    >>> from weft.train import launch
    >>> issubclass(launch.LockedError, launch.LaunchError)
    True
    """


# Files that appear whole, and locks that the system releases when a process dies.


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a file that appears under its name when all of it is on the disk.

    >>> import tempfile
    >>> write_json(tempfile.mkdtemp() + "/a.json", {"rate": 0.1})
    """
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    path = os.fspath(path)
    temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read_json(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The dictionary in a file that ``write_json`` wrote; None if there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise LaunchError(f"{os.fspath(path)} is damaged: {error}") from None
    if not isinstance(found, dict):
        raise LaunchError(f"{os.fspath(path)} is damaged: it holds no dictionary")
    return found


def try_lock(path: str | os.PathLike[str], seconds: float = 0.0) -> int | None:
    """A descriptor that holds a file's lock until it is closed; None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= end:
                os.close(descriptor)
                return None
            time.sleep(0.02)


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Whether a process holds a file's lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def attempt_folders(folder: pathlib.Path) -> list[pathlib.Path]:
    """The folders of the attempts at a run, first to last."""
    try:
        found = [path for path in (folder / "attempts").iterdir() if path.name.isdecimal()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda path: int(path.name))


# Configurations: what JSON lacks is marked by a key that begins with "$".


def decode(value: Any) -> Any:
    """A configuration from its JSON form; ``weft.train.launch.configs`` makes that form.

    >>> decode({"shape": {"$tuple": [2, 3]}, "rate": {"$float": "inf"}})
    {'shape': (2, 3), 'rate': inf}
    """
    if isinstance(value, list):
        return [decode(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    marks = [key for key in value if key.startswith("$")]
    if not marks:
        return {key: decode(inner) for key, inner in value.items()}
    mark, inner = marks[0], value[marks[0]]
    if mark == "$tuple":
        return tuple(decode(item) for item in inner)
    if mark == "$float":
        return float(inner)
    if mark == "$path":
        return pathlib.Path(inner)
    if mark in ("$name", "$enum"):
        found = pkgutil.resolve_name(inner)
        if mark == "$enum" and not isinstance(found, enum.Enum):
            raise LaunchError(f"{inner} is no longer a member of an enumeration")
        return found
    if mark == "$dataclass":
        kind = pkgutil.resolve_name(inner)
        if not dataclasses.is_dataclass(kind):
            raise LaunchError(f"{inner} is no longer a dataclass")
        return kind(**{key: decode(item) for key, item in value["fields"].items()})
    raise LaunchError(f"a configuration has the unknown mark {mark!r}")


def load_gin(setting: dict[str, Any]) -> Any:
    """The module gin, with the files and bindings of a configuration parsed."""
    import gin  # the user's own, and only for those who configure with it

    files = [file["path"] for file in setting["files"]]
    gin.parse_config_files_and_bindings(files, setting["bindings"])
    return gin


# What a function receives.


@dataclasses.dataclass(frozen=True)
class Run:
    """What a function of an experiment receives first: where its run lives, and which it is.

    Args:
        folder: the run's folder. It is the same at every attempt: put ``metrics.jsonl`` and
            checkpoints there, and restore from them if there are any.
        work_unit_id: the number of the work unit in its experiment, from 1.
        attempt: 1 at the first attempt, 2 after the first interruption, and so on.
        args: the configuration.
        previous: the folder of the run that this one continues, as in successive halving.
        rank: the number of this process, where ``mpiexec`` or ``srun`` started several.
        size: how many processes there are.

    Example:
        >>> import tempfile
        >>> run = Run(pathlib.Path(tempfile.mkdtemp()), 1)
        >>> run.attempt, run.is_first, run.artefacts.name
        (1, True, 'artefacts')
    """

    folder: pathlib.Path
    work_unit_id: int
    attempt: int = 1
    args: Any = None
    previous: pathlib.Path | None = None
    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes: the only one, or rank 0."""
        return self.rank == 0

    @property
    def artefacts(self) -> pathlib.Path:
        """A folder for files that the run is to keep; it is made at the first look."""
        path = self.folder / "artefacts"
        path.mkdir(exist_ok=True)
        return path


# The work.


def _memory_bytes() -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def environment() -> dict[str, Any]:
    """Where this process runs. Of the variables only those that steer computations are kept."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    kept = {k: v for k, v in sorted(os.environ.items()) if k.startswith(RECORDED_VARIABLES)}
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "cores": cores,
        "memory": _memory_bytes(),
        "variables": kept,
    }


def loaded_versions() -> dict[str, str]:
    """Versions of the packages that this process has imported."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        version = getattr(module, "__version__", None) if "." not in name else None
        if isinstance(version, str) and not name.startswith("_"):
            found[name] = version
    return found


def used_devices() -> list[str]:
    """The devices of weft, if the run has used it."""
    if "weft.runtime" not in sys.modules:
        return []
    try:
        return [str(device) for device in sys.modules["weft"].devices()]
    except Exception as error:  # a record of devices must not fail a run
        return [f"unknown: {error}"]


def set_limits(memory: int | None, cores: list[int]) -> None:
    """Keep this process, and those that it starts, to an amount of memory and to some cores."""
    if memory:
        import resource  # absent where limits cannot be set

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def end_with_parent() -> None:
    """End this process and its children when the other end of standard input is closed."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="parent watch").start()


def redirect(folder: pathlib.Path, rank: int) -> None:
    """Send standard output and error to files of the attempt."""
    end = f".{rank}" if rank else ""
    for descriptor, stream, name in ((1, sys.stdout, "stdout"), (2, sys.stderr, "stderr")):
        stream.flush()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        file = os.open(folder / f"{name}{end}.txt", flags, 0o666)
        os.dup2(file, descriptor)
        os.close(file)
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def prepare_imports(launch: dict[str, Any], needs_main: bool) -> None:
    """Find modules where the launcher found them."""
    given = [path for path in launch["sys_path"] if isinstance(path, str)]
    sys.path[:] = given + [path for path in sys.path[1:] if path not in given]
    file = launch.get("main_file")
    if file and needs_main:
        # As multiprocessing does, and under its name, so that processes that the function starts
        # find what the script defines: the script is run under another name, and stands for it.
        module = types.ModuleType("__mp_main__")
        module.__file__ = file
        sys.modules["__main__"] = sys.modules["__mp_main__"] = module
        vars(module).update(runpy.run_path(file, run_name="__mp_main__"))


def command_line(command: list[str], args: dict[str, Any]) -> list[str]:
    """A command and its arguments as flags.

    >>> command_line(["train"], {"rate": 0.1, "layers": (2, 3)})
    ['train', '--rate=0.1', '--layers=[2, 3]']
    """

    def text(value: Any) -> str:
        if isinstance(value, (dict, list, tuple, bool)) or value is None:
            return json.dumps(value)
        return str(value)

    return [*command, *(f"--{name}={text(value)}" for name, value in args.items())]


def run_command(command: list[str], run: Run, lock: int | None) -> int:
    """Run a program; the lock stays taken while it lives, also if this process is killed."""
    added = {
        "WEFT_RUN_FOLDER": str(run.folder),
        "WEFT_RUN_ATTEMPT": str(run.attempt),
        "WEFT_RUN_PREVIOUS": str(run.previous or ""),
    }
    kept = () if lock is None else (lock,)
    done = subprocess.run(
        command_line(command, run.args or {}), env=os.environ | added, pass_fds=kept, check=False
    )
    return done.returncode


def call(unit: dict[str, Any], run: Run, attempt: pathlib.Path, lock: int | None) -> Any:
    """Do what the run is for; what the function returns is its result."""
    executable = unit["executable"]
    if executable["kind"] == "command":
        code = run_command(executable["command"], run, lock)
        if code:
            raise SystemExit(code if code > 0 else 128 - code)
        return None
    gin = None
    if isinstance(unit["args"], dict) and "$gin" in unit["args"]:
        function = pkgutil.resolve_name(executable["name"])
        gin = load_gin(unit["args"]["$gin"])
        (attempt / "config.gin").write_text(gin.config_str(), encoding="utf-8")
        result = function(run)
        (attempt / "operative.gin").write_text(gin.operative_config_str(), encoding="utf-8")
        return result
    function = pkgutil.resolve_name(executable["name"])
    if dataclasses.is_dataclass(run.args):
        return function(run, run.args)
    return function(run, **(run.args or {}))


def as_result(value: Any) -> Any:
    """What a function returned, if JSON has it; else how it prints."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        value = value.tolist()
    if isinstance(value, float) and not (value - value == 0):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): as_result(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_result(inner) for inner in value]
    return repr(value)[:1000]


def outcome(unit: dict[str, Any], run: Run, attempt: pathlib.Path, lock: int | None) -> dict:
    """Run the function, and say how it ended."""
    state, code, error, result = "completed", 0, None, None
    try:
        result = call(unit, run, attempt, lock)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if code:
            state, error = "failed", f"exit code {leaving.code}"
    except KeyboardInterrupt:
        state, code, error = "interrupted", 130, "KeyboardInterrupt"
    except BaseException as raised:
        traceback.print_exc()
        text = "".join(traceback.format_exception_only(raised)).strip()
        state, code, error = "failed", 1, text[:10_000]
    return {
        "state": state,
        "code": code,
        "error": error,
        "result": as_result(result),
        "ended": time.time(),
        "versions": loaded_versions(),
        "devices": used_devices(),
    }


def rank_and_size() -> tuple[int, int]:
    """Which of several processes this is, as ``mpiexec`` or ``srun`` say."""
    for rank, size in RANK_VARIABLES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    raise LaunchError("neither mpiexec nor srun set the rank of this process")


def claim(folder: pathlib.Path, after: int, record: dict[str, Any]) -> tuple[int, pathlib.Path]:
    """Take the run's lock and begin an attempt, unless another worker has done so.

    ``after`` is how many attempts the launcher knew of: a worker that waited in a queue while
    another one ran must not run again.
    """
    lock = try_lock(folder / "lock", CLAIM_SECONDS)
    if lock is None or len(attempt_folders(folder)) != after:
        raise LockedError(f"{folder} is run, or was run, by another worker")
    # A child that Python forks must not keep the lock of a parent that was killed.
    os.register_at_fork(after_in_child=lambda: os.close(lock))
    os.ftruncate(lock, 0)
    os.write(lock, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())
    attempt = folder / "attempts" / str(after + 1)
    attempt.mkdir(parents=True)
    write_json(attempt / "attempt.json", record)
    return lock, attempt


def join(folder: pathlib.Path, after: int, token: str) -> pathlib.Path:
    """Wait until rank 0 has begun the attempt."""
    attempt = folder / "attempts" / str(after + 1)
    end = time.monotonic() + RANK_SECONDS
    while time.monotonic() < end:
        begun = read_json(attempt / "attempt.json")
        if begun is not None:
            if begun["token"] != token:
                break
            return attempt
        time.sleep(0.02)
    raise LockedError(f"{folder}: rank 0 did not begin the attempt")


def joined(attempt: pathlib.Path, own: dict[str, Any], size: int) -> dict[str, Any]:
    """How all processes ended: rank 0 waits for the others."""
    for rank in range(1, size):
        while (found := read_json(attempt / f"rank_{rank}.json")) is None:
            time.sleep(0.02)
        if own["state"] == "completed" and found["state"] != "completed":
            own = own | {key: found[key] for key in ("state", "code")}
            own["error"] = f"rank {rank}: {found['error']}"
    return own


def work(folder: pathlib.Path, options: argparse.Namespace) -> int:
    """Execute the run in a folder; the exit code is that of the process."""
    unit = read_json(folder / "unit.json")
    launch = read_json(options.launch / "launch.json")
    if unit is None or launch is None:
        raise LaunchError(f"{folder} has no unit.json, or {options.launch} no launch.json")
    rank, size = rank_and_size() if options.ranks > 1 else (0, 1)
    if rank == 0:
        record = {
            "token": options.token,
            "launch": options.launch.name,
            "started": time.time(),
            "pid": os.getpid(),
            "git": launch.get("git"),
            "environment": environment(),
        }
        lock, attempt = claim(folder, options.after, record)
    else:
        lock, attempt = None, join(folder, options.after, options.token)
    redirect(attempt, rank)
    set_limits(options.memory, options.cores)
    previous = pathlib.Path(unit["previous"]) if unit.get("previous") else None
    if previous is not None and not previous.is_absolute():
        previous = folder.parent / previous
    run = Run(folder, unit["id"], options.after + 1, None, previous, rank, size)
    try:
        named = json.dumps([unit["executable"], unit["args"]])
        prepare_imports(launch, needs_main='"__main__:' in named)
        gin = isinstance(unit["args"], dict) and "$gin" in unit["args"]
        run = dataclasses.replace(run, args=unit["args"] if gin else decode(unit["args"]))
    except BaseException as error:
        traceback.print_exc()
        text = "".join(traceback.format_exception_only(error)).strip()
        ended = {"state": "failed", "code": 1, "error": text, "ended": time.time()}
    else:
        ended = outcome(unit, run, attempt, lock)
    if rank:
        write_json(attempt / f"rank_{rank}.json", ended)
    else:
        write_json(attempt / "exit.json", joined(attempt, ended, size))
    return ended["code"]


def _cores(text: str) -> list[int]:
    return [int(core) for core in text.split(",") if core]


def parse(arguments: list[str]) -> argparse.Namespace:
    """The arguments that launchers pass."""
    parser = argparse.ArgumentParser(prog="weft.train.launch.worker")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--launch", type=pathlib.Path, required=True)
    parser.add_argument("--after", type=int, required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--memory", type=int, default=None)
    parser.add_argument("--cores", type=_cores, default=[])
    parser.add_argument("--end-with-parent", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Execute a run, as the launcher's command line asks for it."""
    options = parse(arguments)
    if options.end_with_parent:
        end_with_parent()
    try:
        return work(options.folder, options)
    except LockedError as error:
        print(f"weft.train.launch: {error}", file=sys.stderr)
        return REFUSED


@contextlib.contextmanager
def holding(folder: pathlib.Path, seconds: float = CLAIM_SECONDS) -> Iterator[bool]:
    """Hold a run's lock for a while; False if a worker has it."""
    lock = try_lock(folder / "lock", seconds)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


if __name__ == "__main__":
    # A function that imports weft.train.launch finds this module, and not a second copy of it.
    sys.modules["weft.train.launch.worker"] = sys.modules["__main__"]
    for _kind in (LaunchError, LockedError, Run):
        _kind.__module__ = "weft.train.launch.worker"
    _code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(_code)
