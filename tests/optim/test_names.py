"""Every public name of optax is there, with the same signature."""

import importlib
import inspect
import json
import subprocess
import sys

import pytest

from tests.optim.harness import DATA, describe_parameter

NAMES = json.loads((DATA / "names.json").read_text())
# Deprecated, and of optax's own machinery.
LEFT_OUT = {
    "experimental.aggregating": {"MaybeAxis", "PerElementUpdates", "AggregatedUpdates"},
}


@pytest.mark.parametrize("module", NAMES, ids=lambda name: name or "optim")
def test_names_and_signatures(module):
    held = importlib.import_module(f"weft.optim.{module}".rstrip("."))
    problems = []
    for name, wanted in NAMES[module].items():
        if name in LEFT_OUT.get(module, ()):
            continue
        if not hasattr(held, name):
            problems.append(f"{name} is missing")
            continue
        if wanted is None:
            continue
        parameters = inspect.signature(getattr(held, name)).parameters.values()
        found = ", ".join(map(describe_parameter, parameters))
        if found != wanted:
            problems.append(f"{name}({found}), in optax ({wanted})")
    assert not problems, "\n".join(["", *problems])


def test_import_weft_does_not_import_it():
    code = "import sys, weft; print('weft.optim' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
