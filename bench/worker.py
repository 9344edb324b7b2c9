"""The process of one library: times rows on request, a JSON object a line, until its input ends.

Run by ``python -m bench`` as ``python -m bench.worker LIBRARY`` under the Python that has it.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from typing import Any

from bench.rows import names

MODULES = {"weft": ("weft", "weft.numpy"), "jax": ("jax", "jax.numpy"), "numpy": ("numpy",)}


def load(library: str) -> Any:
    modules = [importlib.import_module(name) for name in MODULES[library]]
    return modules[0]


class Worker:
    def __init__(self, library: str) -> None:
        self.library = library
        self.module = load(library)
        self.ready: dict[Any, Any] = {}

    def time(self, suite: str, name: str, repeats: int) -> list[list[float]]:
        """CPU and wall seconds of each repeat."""
        call = self.ready.get((suite, name))
        if call is None:
            rows = {row.name: row for row in importlib.import_module(names(suite)).ROWS}
            call = self.ready[suite, name] = rows[name].setups[self.library](self.module)
            call()  # caches of first use are not what is measured
        found = []
        for _ in range(repeats):
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            found.append([time.process_time() - cpu, time.perf_counter() - wall])
        return found


def main() -> None:
    worker = Worker(sys.argv[1])
    answers = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is not an answer
    version = getattr(worker.module, "__version__", "")
    print(json.dumps({"version": version, "python": sys.version.split()[0]}), file=answers)
    answers.flush()
    for line in sys.stdin:
        print(json.dumps(worker.time(**json.loads(line))), file=answers)
        answers.flush()


if __name__ == "__main__":
    main()
