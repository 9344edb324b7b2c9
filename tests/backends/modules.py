"""Modules of code from text: what LLVM's own parser would read, as far as these tests write it."""

import re

from weft.backends.llvm.code import Call, Effort, Function, Memory, Module, Parameter

_FUNCTION = re.compile(r"^define ([^@]*)@([\w.]+)\(([^)]*)\)([^\n]*)\{\n(.*?)^}\n?", re.M | re.S)
_CALL = re.compile(r"^(.*call [^@%]*)@(?!llvm\.)([\w.]+)\((.*)\)$")


def module(text: str) -> Module:
    """A module as a value; a first line such as ``; quick`` says how much LLVM does for it."""
    found = re.match(r"; (\w+)\n", text)
    effort = Effort(found[1]) if found else Effort.KERNEL
    functions = [_function(*f.groups()) for f in _FUNCTION.finditer(text)]
    rest = _FUNCTION.sub("", text).split("\n")
    memory = [_memory(*re.match(r"@(\w+) = (.*)", x).groups()) for x in rest if x[:1] == "@"]
    names = {x.name for x in memory}
    using = lambda f: frozenset(name for name in names if f"@{name}" in str(f))
    functions = [f._replace(memory=using(f)) for f in functions]
    declared = {x.split("@")[1].split("(")[0]: x for x in rest if x.startswith("declare ")}
    groups = [x for x in rest if x.startswith("attributes ")]
    metadata = [x for x in rest if x.startswith("!")]
    return Module(functions, declared, memory, effort, groups, metadata)


def _memory(name: str, what: str) -> Memory:
    return Memory(name, what, "constant" in what)


def _function(before: str, name: str, given: str, after: str, body: str) -> Function:
    words = before.split()
    parameters = []
    for one in filter(None, given.split(", ")):
        kind, *more = one.split()
        named = more.pop()[1:] if more and more[-1][0] == "%" else ""
        parameters.append(Parameter(kind, named, " ".join(more)))
    lines = []
    for line in body.rstrip("\n").split("\n"):
        call = _CALL.match(line)
        lines.append(Call(call[1], call[2], call[3].split(", ")) if call else line)
    internal = "internal" in words
    result = " ".join(w for w in words if w != "internal")
    return Function(name, tuple(parameters), tuple(lines), result, tuple(after.split()), internal)
