"""Which public functions have recorded cases: by value, compiled, differentiated and batched.

``python -m tests.oracle.coverage [--module numpy]`` prints a table and what is not covered.
"""

import argparse
import importlib
import inspect
import sys
from typing import Any

from tools import api_coverage

from . import harness

MODULES = (
    "numpy",
    "numpy.linalg",
    "numpy.fft",
    "lax",
    "lax.linalg",
    "random",
    "nn",
    "nn.initializers",
    "image",
    "ops",
)
KINDS = ("value", "jit", "jvp", "vjp", "vmap")


def modules() -> list[str]:
    """The modules whose functions are counted, as JAX names them."""
    listed = [name.removeprefix("jax.") for name in api_coverage.read_list()]
    return [name for name in listed if name in MODULES or name.startswith("scipy.")]


def functions(module: str) -> list[str]:
    """The public functions of a module: no types, constants or submodules."""
    home: Any = importlib.import_module(f"weft.{module}")
    listed = api_coverage.read_list()[f"jax.{module}"]
    return [
        f"{module}.{name}"
        for name in listed
        if callable(value := getattr(home, name, None)) and not inspect.isclass(value)
    ]


# Why a function has no case of some kind: the results say it where they are no arrays (nothing to
# compile or batch) or no floats (no derivative); here is the rest.
NO_ARRAYS = "makes an array of sizes, numbers or a text: no argument to differentiate or batch"
OUTSIDE = "reads or writes files, memory of others, or settings of the process"
TOKENS = "orders effects or moves data between devices, and computes nothing"
DRAWS = "draws by a key alone: nothing to differentiate"
NO_RULE = "JAX has no derivative for it, or one that is NaN"
NO_BATCH = "JAX does not batch it"
POSITIONS = "gives positions or counts, as floats of another type at most"
EXCEPTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        "numpy.arange numpy.bartlett numpy.blackman numpy.diag_indices numpy.empty"
        " numpy.frombuffer numpy.fromfunction numpy.fromstring numpy.hamming numpy.hanning"
        " numpy.identity numpy.indices numpy.mask_indices numpy.ones numpy.tri numpy.tril_indices"
        " numpy.triu_indices numpy.zeros numpy.diag_indices_from numpy.tril_indices_from"
        " numpy.triu_indices_from numpy.fft.fftfreq numpy.fft.rfftfreq lax.broadcasted_iota"
        " lax.iota lax.empty scipy.linalg.dft scipy.linalg.hadamard"
        " scipy.linalg.helmert scipy.linalg.hilbert scipy.linalg.invhilbert scipy.linalg.pascal"
        " scipy.linalg.invpascal".split(),
        ("jvp vjp vmap", NO_ARRAYS),
    ),
    **dict.fromkeys(
        "numpy.from_dlpack numpy.fromfile numpy.fromiter numpy.get_printoptions numpy.load"
        " numpy.printoptions numpy.save numpy.savez numpy.set_printoptions"
        " nn.get_scaled_dot_general_config".split(),
        ("value jit jvp vjp vmap", OUTSIDE),
    ),
    **dict.fromkeys(
        "lax.psend lax.precv lax.ragged_all_to_all lax.pcast lax.DotDimensionNumbers"
        " lax.after_all lax.rng_uniform"
        " lax.pbroadcast".split(),
        ("value jit jvp vjp vmap", TOKENS),
    ),
    **dict.fromkeys(
        "random.ball random.binomial random.cauchy random.exponential random.gumbel random.key"
        " random.laplace random.logistic random.maxwell random.normal random.rademacher"
        " random.split random.orthogonal".split(),
        ("jvp vjp vmap", DRAWS),
    ),
    **dict.fromkeys(
        (name for name in functions("nn.initializers")),
        ("jvp vjp", DRAWS),
    ),
    **dict.fromkeys(
        "lax.bitcast_convert_type lax.igamma_grad_a lax.linalg.hessenberg lax.linalg.ormqr"
        " lax.linalg.householder_product lax.linalg.schur lax.linalg.symmetric_product"
        " lax.linalg.tridiagonal lax.linalg.qdwh lax.nextafter lax.pmax lax.pmin"
        " lax.random_gamma_grad lax.scatter_apply lax.zeta lax.while_loop numpy.linalg.eig"
        " numpy.nextafter numpy.spacing ops.segment_prod scipy.linalg.funm scipy.linalg.qr_multiply"
        " scipy.linalg.solve_sylvester scipy.linalg.sqrtm scipy.optimize.minimize"
        " scipy.special.betainc scipy.special.spence scipy.stats.gumbel_l.ppf"
        " scipy.stats.gumbel_r.ppf scipy.stats.poisson.entropy".split(),
        ("jvp vjp", NO_RULE),
    ),
    **dict.fromkeys(
        "lax.linalg.cholesky_update scipy.linalg.eigh_tridiagonal scipy.linalg.hessenberg"
        " scipy.linalg.rsf2csf scipy.linalg.schur lax.composite".split(),
        ("jvp vjp vmap", NO_RULE),
    ),
    **dict.fromkeys(
        "lax.ragged_dot lax.ragged_dot_general nn.scaled_dot_general".split(), ("vmap", NO_BATCH)
    ),
    **dict.fromkeys(
        "lax.scaled_dot nn.scaled_matmul".split(),
        ("value", "JAX's CPU backend has no product of scaled blocks"),
    ),
    **dict.fromkeys(
        "numpy.argmax numpy.argsort scipy.stats.mode scipy.stats.rankdata".split(),
        ("jvp vjp", POSITIONS),
    ),
    "numpy.trim_zeros": ("jit", "the size of the result depends on the data"),
}


def recorded() -> dict[str, dict[str, int]]:
    """For every public name, how many cases there are of each kind that gave an answer.

    ``arrays`` and ``floats`` count the cases whose results are such.
    """
    counts: dict[str, dict[str, int]] = {}
    for family in harness.families():
        for entry in harness.Record(family).meta.values():
            kinds = {
                mode.partition(":")[0]
                for mode, row in entry.items()
                if mode not in harness.NOTES and row.get("l")
            }
            leaves = [leaf for leaf in entry["value"].get("l", ()) if len(leaf) > 1]
            kinds |= {"arrays"} if leaves else set()
            kinds |= {"floats"} if any(is_float(leaf[0]) for leaf in leaves) else set()
            for name in entry["uses"]:
                row = counts.setdefault(name, dict.fromkeys((*KINDS, "arrays", "floats"), 0))
                for kind in kinds:
                    row[kind] += 1
    return counts


def is_float(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype


def needed(row: dict[str, int]) -> tuple[str, ...]:
    """The kinds that make sense for a function, by what its cases returned."""
    if row["floats"]:
        return KINDS
    return ("value", "jit", "vmap") if row["arrays"] else ("value",)


def holes(counts: dict[str, dict[str, int]]) -> dict[str, list[str]]:
    """The functions that have no case of some kind that they need, with those kinds."""
    empty = dict.fromkeys((*KINDS, "arrays", "floats"), 0)
    found = {}
    for module in modules():
        for name in functions(module):
            row = counts.get(name, empty)
            if absent := [kind for kind in needed(row) if not row[kind]]:
                found[name] = absent
    return found


def uncovered(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """The holes for which no reason is written."""
    out = {}
    for name, kinds in found.items():
        excused = EXCEPTIONS.get(name, ("", ""))[0].split()
        if left := [kind for kind in kinds if kind not in excused]:
            out[name] = left
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", help="only this module, as in `numpy.fft`")
    options = parser.parse_args()
    counts = recorded()
    absent = holes(counts)
    print(f"{'module':34} {'functions':>9} " + " ".join(f"{kind:>6}" for kind in KINDS))
    totals = dict.fromkeys(("functions", *KINDS), 0)
    for module in modules():
        if options.module not in (None, module):
            continue
        names = functions(module)
        have = {k: sum(k not in absent.get(name, []) for name in names) for k in KINDS}
        print(f"{module:34} {len(names):9} " + " ".join(f"{have[k]:6}" for k in KINDS))
        totals["functions"] += len(names)
        for kind in KINDS:
            totals[kind] += have[kind]
    print(f"{'all':34} " + " ".join(f"{totals[k]:>{9 if k == 'functions' else 6}}" for k in totals))
    for name, kinds in absent.items():
        if options.module in (None, name.rpartition(".")[0]):
            why = EXCEPTIONS.get(name, ("", "NO REASON WRITTEN"))[1]
            print(f"{name}: no {', '.join(kinds)} ({why})")
    return 1 if uncovered(absent) else 0


if __name__ == "__main__":
    sys.exit(main())
