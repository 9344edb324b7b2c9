"""Modules in parts, which several threads compile, with as much care as each part is worth.

Functions marked ``optnone`` call the others of their module and do little besides: compiled on
their own, without any care, they take a fraction of the time. The others are a part each where none
calls another. Of long modules they, or all, become two halves.
"""

from __future__ import annotations

import struct

from weft.backends.llvm.code import Effort, Function, Module

# Lines from which a module is worth a second thread: of one that is optimised a little, and of
# kernels.
_MIN_OPTIMISED_LINES, _MIN_KERNEL_LINES = 1000, 500
_MAGIC = b"weftmany"


def divided(module: Module) -> list[Module]:
    """A module's parts, called ones before those that call them."""
    if module.parts:
        return [*module.parts, module.replaced(parts=())]
    if module.effort is Effort.LIGHT:
        long = module.line_count > _MIN_OPTIMISED_LINES
        return _halves(module) if long and not module.memory else [module]
    quick = [f for f in module.functions if "optnone" in f.attributes]
    if not quick or module.effort is not Effort.KERNEL:
        return [module]
    if not all(x.constant for x in module.memory):
        return [module]  # what is written to may not be in several parts
    others = [f._replace(internal=False) for f in module.functions if f not in quick]
    careless = [f.without("noinline", "optnone") for f in quick]
    whole = module.replaced(functions=[*others, *careless])
    careful = whole.selected(others)
    if not others or careful.memory:
        parts = [careful] * bool(others)
    elif sum(len(f.lines) + 2 for f in others) >= _MIN_KERNEL_LINES:
        parts = _halves(careful)
    elif any(not set(careful.names).isdisjoint(f.calls) for f in others):
        parts = [careful]
    else:
        parts = [whole.selected([f]) for f in others]
    return [*parts, whole.selected(careless).with_effort(Effort.QUICK)]


def _halves(module: Module) -> list[Module]:
    """Two parts of about the same length, of which the first calls nothing of the second."""
    functions = {f.name: f for f in module.functions}
    first: dict[str, Function] = {}

    def add(name: str) -> None:  # after what it calls, as far as that does not call it
        if name in functions and name not in first:
            first[name] = functions[name]
            for other in functions[name].calls:
                add(other)

    half = module.line_count // 2
    for name in sorted(functions, key=lambda name: len(str(functions[name]))):
        so_far = sum(len(f.lines) + 2 for f in first.values())
        if so_far + (len(functions[name].lines) + 2) // 2 >= half:
            break
        add(name)
    second = [f for name, f in functions.items() if name not in first]
    if not first or not second:
        return [module]
    return [module.selected(first.values()), module.selected(second)]


def joined(objects: list[bytes]) -> bytes:
    """The objects of a module's parts as one."""
    if len(objects) == 1:
        return objects[0]
    sizes = [len(objects), *map(len, objects)]
    return b"".join([_MAGIC, struct.pack(f"<{len(sizes)}Q", *sizes), *objects])


def taken_apart(blob: bytes) -> list[bytes]:
    """The objects of a module's parts."""
    if not blob.startswith(_MAGIC):
        return [blob]
    (count,) = struct.unpack_from("<Q", blob, 8)
    at, objects = 16 + 8 * count, []
    for size in struct.unpack_from(f"<{count}Q", blob, 16):
        objects.append(blob[at : at + size])
        at += size
    return objects
