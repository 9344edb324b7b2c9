"""The public names of every public module, kept in tests/data/public_names.json.

Run `python tools/public_names.py` to write the record anew after adding or removing names,
and `python tools/public_names.py --missing LIST` to see which names of a list weft lacks;
the list has a `## jax.module` heading for each module and then one name a line.
"""

import argparse
import importlib
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RECORD = ROOT / "tests" / "data" / "public_names.json"

MODULES = """
weft ad ad_checkpoint api_util as_jax checkpoint_policies custom_batching custom_derivatives debug
distributed dlpack dtypes errors example_libraries.optimizers example_libraries.stax experimental
experimental.array_serialization.serialization experimental.checkify experimental.jet
experimental.layout experimental.mesh_utils experimental.multihost_utils experimental.ode
experimental.pjit experimental.profiler experimental.random experimental.rnn experimental.shard_map
experimental.sparse experimental.sparse.linalg experimental.xla_metadata export extend
extend.backend extend.core extend.core.primitives extend.linear_util extend.random
extend.source_info_util flatten_util image lax lax.linalg memory monitoring moving nn
nn.initializers numpy numpy.fft numpy.linalg ops profiler random ref scipy scipy.cluster.vq
scipy.fft scipy.integrate scipy.interpolate scipy.linalg scipy.ndimage scipy.optimize scipy.signal
scipy.sparse.linalg scipy.spatial.transform scipy.special scipy.stats scipy.stats.bernoulli
scipy.stats.beta scipy.stats.betabinom scipy.stats.binom scipy.stats.cauchy scipy.stats.chi2
scipy.stats.dirichlet scipy.stats.expon scipy.stats.gamma scipy.stats.gennorm scipy.stats.geom
scipy.stats.gumbel_l scipy.stats.gumbel_r scipy.stats.laplace scipy.stats.logistic
scipy.stats.multinomial scipy.stats.multivariate_normal scipy.stats.nbinom scipy.stats.norm
scipy.stats.pareto scipy.stats.poisson scipy.stats.t scipy.stats.truncnorm scipy.stats.uniform
scipy.stats.vonmises scipy.stats.wrapcauchy sharding stages test_util testing tree tree_util typing
linen linen.architectures optim train train.checkpoint train.data train.launch train.metrics
train.report train.tasks train.tasks.metrics train.tasks.preprocessors train.tfrecord
train.vocabularies train.writers
""".split()

# What a module imports for its own use from these is not part of its surface.
HELPERS = {"__future__", "abc", "collections.abc", "dataclasses", "functools", "typing"}


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: `__all__`, or else all but its helpers and private parts."""
    declared = vars(module).get("__all__")
    # a package with parts that are loaded late lists them when it is asked for `__all__`
    found = list(getattr(module, "__all__", vars(module)))
    return sorted(declared or (name for name in found if is_public(module, name)))


def is_public(module: ModuleType, name: str) -> bool:
    if name.startswith("_"):
        return False
    value = getattr(module, name)
    if isinstance(value, ModuleType):
        return value.__name__ in map(full_name, MODULES)
    return getattr(value, "__module__", None) not in HELPERS


def full_name(module: str) -> str:
    return module if module == "weft" else f"weft.{module}"


def is_there(name: str) -> bool:
    """Whether a module exists; one that exists and fails to import is not hidden by this."""
    parts = name.split(".")
    parents = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return all(importlib.util.find_spec(parent) is not None for parent in parents)


def collect() -> dict[str, list[str]]:
    """Public names by module, for the modules that exist."""
    modules = [full_name(name) for name in MODULES]
    # Imported first, all of them: a submodule becomes a name of its parent when imported.
    loaded = [importlib.import_module(name) for name in modules if is_there(name)]
    return {module.__name__: names_of(module) for module in loaded}


def missing(listing: str) -> dict[str, list[str]]:
    """The names of a listing that weft does not have, by module."""
    absent: dict[str, list[str]] = {}
    module = None
    for line in listing.splitlines():
        if heading := re.match(r"## jax([\w.]*) \(\d+\)", line):
            module = "weft" + heading[1]
        elif line.startswith("#"):
            module = None
        elif module and (name := re.match(r"\w+", line)):
            held = importlib.import_module(module) if is_there(module) else None
            if not hasattr(held, name[0]):
                absent.setdefault(module, []).append(name[0])
    return absent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--missing", type=Path, metavar="LIST")
    options = parser.parse_args()
    if options.missing:
        for module, names in missing(options.missing.read_text()).items():
            print(f"{module} ({len(names)}): {' '.join(names)}")
    else:
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(collect(), indent=1) + "\n")


if __name__ == "__main__":
    main()
