"""Every public name of flax is there, with the parameters it has in flax."""

import importlib
import json

import pytest

from tests.linen import harness

NAMES = json.loads((harness.DATA / "names.json").read_text())
# What weft does not have, by module, and why.
LEFT_OUT = {
    # the functional core below linen; only frozen dictionaries and metadata are users' tools
    "core": set(NAMES["core"]) - {"FrozenDict", "freeze", "unfreeze", "copy", "pop", "pretty_repr"},
    # of checkpoints, cursors and nnx, which are not part of linen; or raised by nothing in flax
    "errors": {
        *("AlreadyExistsError", "CursorFindError", "ImmutableVariableError"),
        *("MPACheckpointingRequiredError", "TraceContextError"),
        *("MPARestoreDataCorruptedError", "MPARestoreTargetRequiredError"),
        *("MultipleMethodsCompactError", "TraverseTreeError"),
    },
    # of Orbax, and of arrays of several processes
    "training.checkpoints": {"save_checkpoint_multiprocess"},
}
# Errors are made by weft, with what its own messages say; one argument more that has a default,
# such as what says whether a state that does not fit is refused; the parameters of an enumeration
# are those of Python's class, other ones in each version.
OTHER_PARAMETERS = {
    "": {"Variable", "tabulate"},
    "errors": set(NAMES["errors"]),
    "serialization": {"from_bytes", "from_state_dict"},
    "spmd": {"RulesFallback"},
    "training.checkpoints": {"restore_checkpoint"},
}


@pytest.mark.parametrize("module", NAMES, ids=lambda name: name or "linen")
def test_names_and_parameters(module):
    held = importlib.import_module(f"weft.linen.{module}".rstrip("."))
    problems = []
    for name, wanted in NAMES[module].items():
        if name in LEFT_OUT.get(module, ()):
            continue
        if not hasattr(held, name):
            problems.append(f"{name} is missing")
        elif name not in OTHER_PARAMETERS.get(module, ()) and wanted is not None:
            found = harness.parameters(getattr(held, name))
            if found != wanted:
                problems.append(f"{name}({found}), in flax ({wanted})")
    assert not problems, "\n".join(["", *problems])


def test_what_is_left_out_is_not_there():
    for module, names in LEFT_OUT.items():
        held = importlib.import_module(f"weft.linen.{module}")
        assert not [name for name in names if hasattr(held, name)]
