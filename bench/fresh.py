"""A new process that calls a row's Program for the first time, and says how long that took.

Run as ``python -m bench.fresh LIBRARY SUITE ROW CALLS``; answers one JSON object: seconds of the
first call (CPU, wall), and the peak of resident memory of the later ones in bytes.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

from bench.libraries import Call, find, load


def resident(field: str) -> int:
    """Bytes of this process, by the kernel's account: ``VmRSS`` now, ``VmHWM`` at the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    return 0


def main() -> None:
    library, suite, name, calls = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    call = Call(library, load(library), find(suite, name))
    cpu, wall = time.process_time(), time.perf_counter()
    call.once()
    first = [time.process_time() - cpu, time.perf_counter() - wall]
    peak = resident("VmHWM")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew from here
    for _ in range(int(calls)):
        call.once()
    print(json.dumps({"first": first, "peak": peak, "later": resident("VmHWM")}), file=answers)


if __name__ == "__main__":
    main()
