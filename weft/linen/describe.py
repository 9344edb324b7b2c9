"""Modules as text: fields and submodules, one a line."""


def describe(module, indent: str = "    ") -> str:
    """The class, its fields, and the submodules it has made so far."""
    lines = []
    shown = [n for n in module._fields if module.__dataclass_fields__[n].repr]
    if shown:
        lines.append("# attributes")
        lines += [f"{name} = {short(module.__dict__.get(name))}" for name in shown]
    children = {k: v for k, v in module._state.children.items() if not isinstance(v, str)}
    if children:
        lines.append("# children")
        lines += [f"{name} = {describe(child)}" for name, child in children.items()]
    if not lines:
        return f"{type(module).__name__}()"
    body = "\n".join(lines).replace("\n", "\n" + indent)
    return f"{type(module).__name__}(\n{indent}{body}\n)"


def short(value) -> str:
    """The value of a field; functions by their names."""
    if callable(value) and getattr(value, "__name__", None):
        return value.__name__
    return repr(value)
