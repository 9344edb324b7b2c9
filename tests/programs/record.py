"""Records what JAX answers to the programs: run `python -m tests.programs.record` beside JAX."""

import json
import os

import numpy as np

from tests.programs.programs import PROGRAMS

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.json")


def summary(jax, result):
    """Every array of a result: its type, and its elements to seven digits."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(result)]
    return [
        [x.dtype.name, list(x.shape), [float(f"{v:.7g}") for v in x.ravel().tolist()]]
        for x in leaves
    ]


def main():
    import jax

    lines = [
        f"{json.dumps(name)}: {json.dumps(summary(jax, program(jax)))}"
        for name, program in PROGRAMS.items()
    ]
    with open(PATH, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
