"""What `tools/sanitize.py` runs under compute-sanitizer: samples of the laws and generated
programs, small, one after the other on the GPU."""

from __future__ import annotations

import argparse
import time

import numpy as np

import weft
from bench.broad import run
from bench.broad.drawing import PROGRAMS, Draw
from tests.laws.checks import seed_of
from tests.samples import WIDE, all_samples


class Few(Draw):
    """Generated programs with few elements, of all kinds of sizes."""

    def pick(self, *choices):
        found = super().pick(*choices)
        numbers = all(type(c) is int for c in choices)
        return min(choices) if numbers and max(choices) > 300 else found

    def near(self, low, high):
        return super().near(low, max(low + 1, min(high, 4 * low, 200)))

    def rows(self, most=0):
        return self.pick((3, 5), (300, 7), (70, 64), (5, 1000), (33, 129), (2, 5000))


def samples(count: int, seed: int):
    """Samples of primitives, evenly taken, as functions and arguments."""
    found = [(s, d) for s in all_samples() if s.axis is None for d in s.dtypes]
    step = max(1, len(found) // max(count, 1))
    for sample, dtype in found[seed % step :: step][:count]:
        args = sample.operands(dtype, seed_of(sample))
        yield str(sample), dtype in WIDE, sample.function(dtype), args


def programs(count: int, seed: int):
    """Generated programs and their gradients."""
    run.Draw = Few
    cases = list(run.cases(seed, 1))
    step = max(1, len(cases) // max(count, 1))
    for name, key, grad in cases[seed % step :: step][:count]:
        fun, args, _ = run.made(weft, name, key, grad)
        yield f"{name}{', gradient' * grad}", False, fun, args


def uses_library(fun, args, names) -> bool:
    """Whether kernels of some libraries compute a part of a program, which may not be planned if
    it has Fourier transforms: plans load their library."""
    if "cufft" in names and " fft[" in str(weft.make_jaxpr(fun)(*args)):
        return True
    text = str(weft.explain(fun, quiet=True)(*args))
    return any(name in text for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--programs", type=int, default=len(PROGRAMS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--without", nargs="*", default=(), help="libraries not to be used")
    options = parser.parse_args()
    began, done = time.time(), 0
    sources = samples(options.samples, options.seed), programs(options.programs, options.seed)
    for source in sources:
        for name, wide, fun, args in source:
            if time.time() - began > options.seconds:
                break
            with weft.enable_x64(wide):
                try:
                    if options.without and uses_library(fun, args, options.without):
                        continue
                    weft.tree.map(np.asarray, weft.jit(fun)(*args))
                    done += 1
                except Exception as error:  # the sanitizer says what the GPU did wrong
                    print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    print(f"ran {done} programs", flush=True)


if __name__ == "__main__":
    main()
