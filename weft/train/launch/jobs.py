"""What an experiment runs: a function or a program, its arguments, and where it runs."""

import dataclasses
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.train.launch import configs, executors


@dataclasses.dataclass(frozen=True)
class Function:
    """A Python function as an executable: workers import it by its name.

    It is called with a ``Run``, and with the arguments as keywords, or with a dataclass second.
    A function of a script is found by running the script under another name, so a script launches
    below ``if __name__ == "__main__":``.

    Args:
        function: a function at the top of a module.

    >>> import json
    >>> Function(json.dumps).name
    'json:dumps'
    >>> Function(lambda run: None)
    Traceback (most recent call last):
        ...
    TypeError: the function is <function <lambda> at ...>, which a worker cannot import: define it
    at the top of a module
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"{self.function!r} is not a function")
        configs.importable_name(self.function, "the function")

    @property
    def name(self) -> str:
        """Module and name, as ``"module:name"``."""
        return configs.importable_name(self.function, "the function")

    def record(self) -> dict[str, Any]:
        """How the run's folder describes it."""
        return {"kind": "function", "name": self.name}

    def check(self, args: Any) -> None:
        """Raise ``TypeError`` if the function does not take these arguments."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            return
        try:
            if isinstance(args, Mapping):
                signature.bind(None, **args)
            elif not isinstance(args, configs.Gin):
                signature.bind(None, args)
        except TypeError as error:
            name = getattr(self.function, "__name__", self.function)
            raise TypeError(
                f"{name}{signature} cannot be called with a Run and {args!r}: {error}"
            ) from None


@dataclasses.dataclass(frozen=True)
class Command:
    """A program as an executable; arguments become flags, as ``--rate=0.1``.

    The program finds its run's folder in the variable ``WEFT_RUN_FOLDER``.

    Args:
        command: the program and its fixed arguments.

    Example:
        >>> Command(["python", "train.py"]).record()
        {'kind': 'command', 'command': ['python', 'train.py']}
    """

    command: Sequence[str]

    def __post_init__(self) -> None:
        if isinstance(self.command, (str, bytes)) or not len(self.command):
            raise TypeError(
                f"Command takes a list: write ['program', 'argument'], not {self.command!r}"
            )
        object.__setattr__(self, "command", tuple(os.fspath(part) for part in self.command))

    def record(self) -> dict[str, Any]:
        """How the run's folder describes it."""
        return {"kind": "command", "command": list(self.command)}

    def check(self, args: Any) -> None:
        """Raise ``TypeError`` if the arguments cannot become flags."""
        if args is not None and not isinstance(args, Mapping):
            raise TypeError(f"the flags of a command must be a dictionary, not {args!r}")


@dataclasses.dataclass(frozen=True)
class Job:
    """An executable with its executor, and arguments that all its work units share.

    Args:
        executable: a function, ``Function`` or ``Command``.
        executor: where it runs; the experiment's own by default.
        args: a dictionary of arguments; those of a work unit go before them.
        env_vars: variables of the environment, added to those of the launcher.

    Example:
        >>> import json
        >>> Job(json.dumps, args={"indent": 1}).executable
        Function(function=<function dumps at ...>)
    """

    executable: Any
    executor: executors.Executor | None = None
    args: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    env_vars: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.executable, (Function, Command)):
            object.__setattr__(self, "executable", Function(self.executable))
        if self.executor is not None and not isinstance(self.executor, executors.Executor):
            raise TypeError(f"{self.executor!r} is not an executor: pass launch.Local() or another")
        if not isinstance(self.args, Mapping):
            raise TypeError(f"a job's args must be a dictionary, not {self.args!r}")
        for name, value in self.env_vars.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError(f"environment variables must be strings: {name!r}: {value!r}")

    def merged(self, args: Any) -> Any:
        """The arguments of a work unit: its own before the job's."""
        if args is None:
            return dict(self.args)
        if isinstance(args, Mapping):
            return {**self.args, **args}
        if self.args:
            raise TypeError(f"a job with args needs dictionaries for its work units, not {args!r}")
        return args
