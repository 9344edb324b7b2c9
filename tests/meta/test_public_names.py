"""A public name comes or goes only on purpose: the record changes in the same commit."""

import importlib
import json

from tools.public_names import RECORD, collect


def test_public_names_are_as_recorded() -> None:
    recorded, found = json.loads(RECORD.read_text()), collect()
    changes = []
    for module in sorted(recorded.keys() | found.keys()):
        before, after = set(recorded.get(module, ())), set(found.get(module, ()))
        changes += [f"{module}.{name} is gone" for name in sorted(before - after)]
        changes += [f"{module}.{name} is new" for name in sorted(after - before)]
    assert not changes, "\n".join(
        ["", *changes, "If this is meant, run: python tools/public_names.py"]
    )


def test_exported_names_exist() -> None:
    for module, names in collect().items():
        held = importlib.import_module(module)
        assert [name for name in names if not hasattr(held, name)] == [], module
