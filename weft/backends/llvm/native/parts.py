"""Modules in parts, which several threads compile, with as much care as each part is worth.

Functions marked ``optnone`` call the others of their module and do little besides: compiled on
their own, without any care, they take a fraction of the time. The others are a part each where none
calls another. Of long modules they, or all, become two halves.
"""

from __future__ import annotations

import re
import struct

from weft.backends.llvm.native.llvm import INLINE, LIGHT, LOOP, OPTIMISE, QUICK

# Lines from which a module is worth a second thread: of one that is optimised a little, and of
# kernels.
_MIN_OPTIMISED_LINES, _MIN_KERNEL_LINES = 1000, 500
_MAGIC = b"weftmany"
PART = "; part\n"  # between the parts of a module that is written in some
_FUNCTION = re.compile(r"^define [^\n]*\n(?:[^}\n][^\n]*\n)*}\n", re.MULTILINE)
# Constants may be in several parts; what is written to may not.
_CONSTANT = re.compile(r"^@(\w+) = private unnamed_addr constant [^\n]*\n", re.MULTILINE)
_VARIABLE = re.compile(r"^@(?!\w+ = private unnamed_addr constant )", re.MULTILINE)
_NAME = re.compile(r"@(\w+)")
_HEAD = re.compile(r"define (?:internal )?(.+? @\w+)\(([^)]*)\)")


def divided(text: str) -> list[str]:
    """The texts of a module's parts, called ones before those that call them."""
    if PART in text:
        return text.split(PART)
    if text.startswith(LIGHT) and text.count("\n") > _MIN_OPTIMISED_LINES and "\n@" not in text:
        return _halves(text.removeprefix(LIGHT), LIGHT)
    if " optnone " not in text or text.startswith((OPTIMISE, INLINE, LOOP, LIGHT, QUICK)):
        return [text]
    functions = _FUNCTION.findall(text)
    quick = [f for f in functions if " optnone " in f.split("\n", 1)[0]]
    others = [f for f in functions if f not in quick]
    rest = _FUNCTION.sub("", text)
    if _VARIABLE.search(rest):
        return [text]
    public = [f.replace("define internal ", "define ", 1) for f in others]
    shared = "".join(public)
    careless = [f.replace(" noinline optnone", "", 1) for f in quick]
    plain = "".join([*map(_declared, others), *careless])
    careful = _used(rest, shared) + shared
    if not others or "\n@" in f"\n{careful}":
        parts = [careful] * bool(others)
    elif shared.count("\n") >= _MIN_KERNEL_LINES:
        parts = _halves(careful, "")
    else:
        parts = [_used(rest, f) + f for f in _strangers(public)]
    return [*parts, QUICK + _used(rest, plain) + plain]


def _strangers(functions: list[str]) -> list[str]:
    """Functions of which none calls another, or all as one text."""
    names = [_NAME.findall(f) for f in functions]
    heads = {found[0] for found in names}
    strange = not any(heads.intersection(found[1:]) for found in names)
    return functions if strange else ["".join(functions)]


def _used(rest: str, functions: str) -> str:
    """What stands around functions without the constants that they do not use."""
    if " constant " not in rest:
        return rest
    used = set(_NAME.findall(functions))
    return _CONSTANT.sub(lambda found: found[0] if found[1] in used else "", rest)


def _halves(text: str, head: str) -> list[str]:
    """Two parts of about the same length, of which the first calls nothing of the second."""
    functions = {_NAME.findall(f)[0]: f for f in _FUNCTION.findall(text)}
    first: dict[str, str] = {}

    def add(name: str) -> None:  # after what it calls, as far as that does not call it
        if name in functions and name not in first:
            first[name] = functions[name]
            for other in _NAME.findall(functions[name])[1:]:
                add(other)

    half = text.count("\n") // 2
    for name in sorted(functions, key=lambda name: len(functions[name])):
        so_far = sum(f.count("\n") for f in first.values())
        if so_far + functions[name].count("\n") // 2 >= half:
            break
        add(name)
    second = [f for name, f in functions.items() if name not in first]
    if not first or not second:
        return [head + text]
    rest = _FUNCTION.sub("", text)
    used = {name for f in second for name in _NAME.findall(f)}
    declared = [_declared(f) for name, f in first.items() if name in used]
    return ["".join([head, rest, *first.values()]), "".join([head, rest, *declared, *second])]


def _declared(function: str) -> str:
    head = _HEAD.match(function)
    assert head is not None, function[:100]
    kinds = (given.rsplit(" ", 1)[0] for given in head[2].split(", ") if given)
    return f"declare {head[1]}({', '.join(kinds)})\n"


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
