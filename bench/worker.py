"""The process of one library: times rows on request, a JSON object a line, until its input ends.

Run by ``python -m bench`` as ``python -m bench.worker LIBRARY`` under the Python that has it.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import numpy as np

from bench.libraries import Call, as_numpy, find, leaves, load

# A sample is a batch of calls at least this long, so that the clock costs nothing.
SAMPLE = 2e-4


class Worker:
    def __init__(self, library: str) -> None:
        self.library = library
        self.module = load(library)
        self.key: Any = None
        self.call: Any = None

    def prepare(self, suite: str, name: str, result: str | None) -> None:
        """Set a row up and call it once: caches of first use are not what is measured."""
        self.call = None  # the arrays of the row before go first
        gc.collect()
        row = find(suite, name)
        self.call = Call(self.library, self.module, row)
        self.key = (suite, name)
        found = self.call.once()
        if result is not None:
            kept = [as_numpy(x) for x in leaves(found)]
            np.savez(result, *(kept if row.look is None else row.look(kept)))
        if self.call.program is not None:
            while self._grown(self.call.sample()[1]):
                pass

    def _grown(self, wall: float) -> bool:
        """Make batches longer if they were too short for the clock."""
        if self.call.program is None or wall * self.call.batch >= SAMPLE:
            return False
        self.call.batch = max(2 * self.call.batch, int(1.2 * SAMPLE / max(wall, 1e-9)))
        return True

    def time(self, suite: str, name: str, seconds: float, result: str | None) -> dict[str, Any]:
        """The best CPU and wall seconds of the samples that fit in some time, or of three."""
        start = time.perf_counter()
        if self.key != (suite, name):
            self.prepare(suite, name, result)
        first = time.perf_counter() - start
        gc.collect()
        found: list[tuple[float, float]] = []
        start = time.perf_counter()
        # One sample of a call that is usually short may be all waiting for a busy machine.
        while (
            not found
            or (spent := time.perf_counter() - start) < seconds
            or (len(found) < 3 and spent < 10 * seconds)
        ):
            found.append(self.call.sample())
            # calls may have become faster since the first ones: code that is loaded meanwhile
            self._grown(2 * found[-1][1])
        return {"best": [min(column) for column in zip(*found)], "first": first}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.time(**request)
        except Exception as error:  # whatever a library raises belongs into the table
            self.key = self.call = None
            text = str(error).strip().partition("\n")[0]
            return {"error": f"{type(error).__name__}: {text}"[:200]}


def main() -> None:
    worker = Worker(sys.argv[1])
    gc.freeze()  # collections between rows need not look at the library's own modules
    answers = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is not an answer
    version = getattr(worker.module, "__version__", "")
    print(json.dumps({"version": version, "python": sys.version.split()[0]}), file=answers)
    answers.flush()
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers)
        answers.flush()


if __name__ == "__main__":
    main()
