"""Records dm_pix's answers into data/pix.npz.

Run `python -m tests.image.record_pix` where dm_pix and JAX 0.10.2 are installed.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from tests.image.pix_cases import batch, cases, cotangent


def main() -> None:
    import dm_pix
    import jax

    library = SimpleNamespace(image=dm_pix, key=jax.random.key)
    record = {}
    for name, case in cases().items():

        def answers(first, *rest, case=case):
            call = lambda x: case.call(library, x, *rest)
            found = {"value": call(first)}
            if case.arrays[0].ndim < 4:
                found["vmap"] = jax.vmap(call)(batch(case.arrays[0]))
            if case.smooth:
                weights = cotangent(found["value"])
                found["grad"] = jax.grad(lambda x: (call(x) * weights).sum())(first)
            return found

        for kind, array in jax.jit(answers)(*case.arrays).items():
            record[f"{name}/{kind}"] = np.asarray(array)
    np.savez_compressed(Path(__file__).parent / "data" / "pix.npz", **record)
    print(len(record), "arrays")


if __name__ == "__main__":
    main()
