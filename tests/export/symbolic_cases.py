"""Questions on symbolic shapes that JAX and weft are asked alike, and how they are answered.

``tools/record_symbolic.py`` records JAX's answers in ``symbolic_answers.json``; the tests ask weft.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .symbolic_functions import CASES

# Arithmetic, comparisons and printing: constraints, and expressions in a, b and c.
DIMENSIONS: list[tuple[tuple[str, ...], str]] = [
    *[((), text) for text in (
        "a", "a + 1", "1 + a", "a - 1", "1 - a", "-a", "+a", "a - a", "a + a", "2*a + 1", "a*b", "b*a",
        "a*b*c", "a*a", "a**2", "a**0", "a**3*b", "(a + b)*(a - b)", "(a + 1)**2", "a*0", "0*a", "a + b + c",
        "c + b + a", "b - 2*a", "3*b - a*b + 7", "a // 2", "a % 3", "divmod(a, 2)", "(2*a) // 2", "(2*a + 1) // 2",
        "(2*a + 1) % 2", "(4*a + 6) // 2", "(4*a*b) // (2*a)", "(a*b) // a", "(a*b) % a", "a // b", "a % b",
        "7 // a", "7 % a", "(a + 3) // 3", "a // 1", "a % 1", "a // -2", "a // 0", "max_dim(a, b)", "min_dim(a, b)",
        "max_dim(a, 0)", "min_dim(a, 1)", "max_dim(a, 5)", "max_dim(a - 5, 0)", "min_dim(3, a)", "max_dim(3, 4)",
        "max_dim(a, a + 1)", "min_dim(a, a*b)", "(a // 2) * 2", "(a // 2)*(a // 2)", "a // 2 + a % 2",
        "a >= 1", "a > 0", "a >= 2", "a <= 0", "a < 1", "a > b", "a == a", "a == b", "a != b", "a == 3", "a != 3",
        "a + 1 > a", "a*b >= a", "2*a >= a + 1", "a - b >= 0", "a % 3 < 3", "a % 3 >= 0", "a // 2 <= a", "a // 2 >= 1",
        "max_dim(a, b) >= a", "min_dim(a, b) <= b", "max_dim(a, 3) >= 3", "a == 'a'", "a == 1.5", "a == None",
        "bool(a)", "bool(a - 1)", "int(a)", "float(a)", "range(a)", "[1, 2][a]", "hash(a) == hash(a + 0)",
        "hash(a + b) == hash(b + a)", "{a: 1}[a + 0]", "(a, b) == (a, b)", "(a, 2) == (a, 3)", "str(2*a + b)",
        "repr(a // 2)", "f'{a + 1}'", "a ** -1", "a ** 0.5", "isinstance(a, int)", "a in (1, 2)", "a in (b, a)",
        "np.int32(2) + a", "a + np.int64(3)", "True + a", "sum([a, b, 1])", "math.prod([a, 2, b])",
        "export.is_symbolic_dim(a)", "export.is_symbolic_dim(a - a)", "export.is_symbolic_dim(3)", "sorted([a + 2, a])",
        "max(a, a + 1)", "min(a, 1)", "max(a, b)", "(a + b) // (a + b)", "(a*a - b*b) // (a - b)", "a - (a // 4)*4 >= 0",
    )],
    *[(("b >= 2", "b <= 8"), text) for text in (
        "b >= 2", "b > 1", "b >= 3", "b <= 8", "b < 9", "b <= 7", "2*b >= 4", "b*b >= 4", "b*b <= 64", "b // 2 >= 1",
        "b % 16 >= 0", "min_dim(b, 8)", "max_dim(b, 2)", "min_dim(b, 5)", "max_dim(b, 9)", "b - 9 < 0", "a + b >= 3",
    )],
    *[(("mod(b, 2) == 0",), text) for text in (
        "b % 2", "b // 2", "(b // 2) * 2", "b // 2 + b // 2", "b % 4", "3*(b // 2)", "b >= 2", "2*(b // 2) == b",
    )],
    *[(("a == 2*b",), text) for text in ("a", "a + b", "a // 2", "a % 2", "a*a", "a >= b", "a == 2*b", "a - b")],
    *[(("a >= b", "b >= c"), text) for text in ("a >= c", "a + 1 > c", "b >= a", "a - c >= 0", "max_dim(a, c)", "min_dim(b, a)")],
    *[(("a + b <= 10", "a >= 4"), text) for text in ("b <= 6", "b <= 5", "a <= 9", "a <= 8", "2*a + 2*b <= 20")],
    *[(("max(a, b) >= 4", "floordiv(c, 3) == 5"), text) for text in ("max_dim(a, b) >= 4", "c // 3", "c >= 15", "c <= 17")],
]  # fmt: skip

# Shapes read from text.
SHAPES: list[str] = [
    *[f"export.symbolic_shape({args})" for args in (
        "'b, 2*h'", "'(b, h)'", "'b'", "'(b)'", "'(b,)'", "''", "'()'", "'3, 4'", "None, like=(3, 4)", "'...', like=(3, 4)",
        "'b, ...', like=(3, 4, 5)", "'b, _, 2*h', like=(None, 7, None)", "'_, _', like=(2, 3)", "'b, _'", "'b, ...'",
        "'_', like=(None,)", "'b, _', like=(3,)", "'b, 4', like=(3, 5)", "'b, 4', like=(3, 4)", "'b, 4', like=(3,)",
        "'b + 1, b - 1'", "'-b + 3*h'", "'b*h, b^2, 2*b^3'", "'floordiv(b, 2)'", "'mod(b, 3)'", "'max(a, b), min(a, 3)'",
        "'2*b + 1'", "'b*2'", "'b h'", "'b,,h'", "'b +'", "'b**2'", "'b / 2'", "'b // 2'", "'floordiv(b)'", "'floordiv(b, 2'",
        "'foo(b)'", "'2.5'", "'b^-1'", "'b^h'", "'(b, h'", "'b, h)'", "'b!'", "3", "('b', 3)", "'b', constraints='b >= 2'",
        "'b', constraints=['b > 2']", "'b', constraints=['b >= 2', 'b <= 1']", "'b', constraints=[3]",
        "'b', constraints=['2 >= 3']", "'b', constraints=['2 == 3']", "'b', constraints=['b + a == 3']",
        "'b', constraints=['3 == b']", "'b', constraints=['b == 3', 'b == 4']", "'a, b', constraints=['a == b']",
        "'a, b', constraints=['a == 3']", "'a, floordiv(a, 4), mod(a, 4)', constraints=['mod(a, 4) == 0']",
        "'b', constraints=['b >= 2'], scope=export.SymbolicScope()", "'b', scope=export.SymbolicScope(['b >= 3'])",
        "'b', constraints=['b >= 2 2']", "'a*b + b*a + 1'", "'b_1, _b'", "'1*b + 0*h'", "'b - b'", "'--b'", "'- 3'",
        "'floordiv(2*b + 4, 2), mod(2*b + 1, 2)'", "'max(b, b + 1)'", "'b, 0'",
    )],
    *[f"export.symbolic_args_specs({args})" for args in (
        "(x34, x4), 'b, ...'", "(x34, x4), None", "(x34, x4), ('b, _', None)", "(x34, x4), ['b, _', '...']",
        "{'x': x34, 'y': x4}, {'x': 'b, h', 'y': 'h'}", "{'x': x34, 'y': x4}, 'b, ...'", "(x34, (x4, x4)), ('b, _', 'c')",
        "(x34, x4), ('b, _',)", "(x34,), ('b, 5',)", "(x34,), 'b'", "(x34,), ('b, h',), constraints=['b >= h']",
        "(x34,), ('b, h',), constraints=['b >= h'], scope=export.SymbolicScope()",
    )],
    "(lambda s, t: s + t)(*export.symbolic_shape('b'), *export.symbolic_shape('b'))",
    "(lambda s, t: s == t)(*export.symbolic_shape('b'), *export.symbolic_shape('b'))",
    "(lambda s, t: s >= t)(*export.symbolic_shape('b'), *export.symbolic_shape('b'))",
]  # fmt: skip

# Exported functions: the function, the types of arguments, constraints, shapes to call it with.
EXPORTS: list[tuple[str, tuple[str, ...], tuple[str, ...], list[tuple[tuple[int, ...], ...]]]] = [
    ("lambda x: x * 2", ("f b, h",), (), [((2, 3),), ((1, 1),), ((0, 3),), ((2,),), ((2, 3, 4),)]),
    ("lambda x: x.reshape(-1)", ("f b, 2*h",), (), [((3, 4),), ((3, 5),), ((3, 2),)]),
    ("lambda x: x + 1", ("f b, b",), (), [((3, 3),), ((3, 4),)]),
    ("lambda x, y: x @ y", ("f b, h", "f h, 4"), (), [((2, 3), (3, 4)), ((2, 3), (4, 4)), ((2, 3), (3, 5))]),
    ("lambda x: x.sum(0)", ("f 2*b + 1",), (), [((3,),), ((4,),), ((1,),)]),
    ("lambda x, y: x[:y.shape[0]] + y", ("f b + h", "f b"), (), [((5,), (2,)), ((5,), (5,)), ((5,), (6,))]),
    ("lambda x: x", ("f b",), ("b >= 2", "b <= 4"), [((1,),), ((2,),), ((4,),), ((5,),)]),
    ("lambda x: x.reshape(2, -1)", ("f b",), ("mod(b, 2) == 0",), [((4,),), ((5,),)]),
    ("lambda x, y: (x, y)", ("f a", "f b"), ("a == 2*b",), [((4,), (2,)), ((4,), (3,))]),
    ("lambda x, y: x", ("f a", "f b"), ("a >= b",), [((4,), (2,)), ((2,), (4,))]),
    ("lambda x: x", ("f a*b",), (), []),
    ("lambda x, y: x", ("f a*b", "f b"), (), []),
    ("lambda x, y: x", ("f a + b", "f b"), (), [((5,), (3,)), ((3,), (3,))]),
    ("lambda x, y: x", ("f floordiv(a, 2)", "f a"), (), [((2,), (5,)), ((3,), (5,))]),
    ("lambda x, y: x", ("f a^2", "f a"), (), [((9,), (3,)), ((8,), (3,))]),
    ("lambda x: jnp.concatenate([x, x])", ("f b",), (), [((3,),)]),
    ("lambda x: x.mean()", ("f b",), (), [((3,),)]),
    ("lambda x: x[::2]", ("f b",), (), [((3,),), ((4,),)]),
    ("lambda x: jnp.arange(x.shape[0])", ("f b",), (), [((3,),)]),
    ("lambda x: x.shape[0] * jnp.ones(2)", ("f b",), (), [((3,),)]),
    ("lambda x: x[:3]", ("f b",), (), [((2,),), ((5,),)]),
    ("lambda x: x[:3]", ("f b",), ("b >= 3",), [((2,),), ((5,),)]),
    ("lambda x: jnp.ones((c_dim,)) + x.sum()", ("f b",), (), []),
]  # fmt: skip


class Asked:
    """A library under the names that questions use."""

    def __init__(self, library: str) -> None:
        self.library = library
        module = importlib.import_module
        self.jax: Any = module(library)
        self.export: Any = module(f"{library}.export")
        for name in ("scipy.special", "scipy.linalg", "image", "ops"):
            module(f"{library}.{name}")
        if library == "jax":
            core = module("jax.core")
        else:
            core = module("weft.core.dims.dim")
        self.names = {
            "jax": self.jax,
            "jnp": module(f"{library}.numpy"),
            "lax": module(f"{library}.lax"),
            "export": self.export,
            "np": np,
            "math": module("math"),
            "max_dim": core.max_dim,
            "min_dim": core.min_dim,
            "x34": np.ones((3, 4), np.float32),
            "x4": np.ones(4, np.float32),
        }

    def dimension(self, constraints: tuple[str, ...], text: str) -> str:
        scope = self.export.SymbolicScope(constraints)
        named = zip("abc", self.export.symbolic_shape("a, b, c", scope=scope), strict=True)
        return answer(lambda: eval(text, {**self.names, **dict(named)}))

    def shape(self, text: str) -> str:
        return answer(lambda: eval(text, dict(self.names)))

    def function(self, text: str) -> Callable[..., Any]:
        return eval(text, dict(self.names))

    def specs(self, types: tuple[str, ...], scope: Any = None) -> list[Any]:
        scope = scope or self.export.SymbolicScope()
        found = []
        for text in types:
            kind, _, shape = text.partition(" ")
            sizes = self.export.symbolic_shape(shape, scope=scope)
            found.append(self.jax.ShapeDtypeStruct(sizes, self.dtype(kind)))
        return found

    def dtype(self, kind: str) -> Any:
        if kind == "k":
            return self.jax.random.key(0).dtype
        return {"i": np.int32, "c": np.complex64, "t": np.bool_}.get(kind[0], np.float32)

    def result_types(self, text: str, types: tuple[str, ...]) -> str:
        return answer(
            lambda: told(self.jax, self.jax.eval_shape(self.function(text), *self.specs(types)))
        )

    def exported(self, text: str, types: Any, constraints: Any, calls: Any) -> list[str]:
        """Types of the export, and of results of calls with other sizes."""
        scope = self.export.SymbolicScope(constraints)
        (other,) = self.export.symbolic_shape("c_dim", scope=scope)
        function = eval(text, {**self.names, "c_dim": other})
        made: list[Any] = []

        def export() -> Any:
            made.append(self.export.export(self.jax.jit(function))(*self.specs(types, scope)))
            return [[str(a) for a in avals] for avals in (made[0].in_avals, made[0].out_avals)]

        found = [answer(export)]
        for shapes in calls if made else ():
            args = [np.ones(shape, np.float32) for shape in shapes]
            found.append(answer(lambda args=args: told(self.jax, made[0].call(*args))))
        return found


def told(jax: Any, result: Any) -> str:
    leaves = jax.tree_util.tree_leaves(result)
    return ", ".join([f"{x.dtype}[{','.join(map(str, x.shape))}]" for x in leaves])


def answer(ask: Callable[[], Any]) -> str:
    """What something gives, or the class of what it raises."""
    try:
        found = ask()
    except Exception as error:
        return f"raises {type(error).__name__}"
    return found if isinstance(found, str) else repr(found)


def random_dimensions(count: int, seed: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Constraints, and comparisons of random expressions."""
    draw = random.Random(seed)
    known = [
        (), (), ("b >= 2",), ("b >= 2", "b <= 8"), ("mod(b, 2) == 0",), ("a == 2*b",), ("a >= b",),
        ("a >= b", "b >= c"), ("c == 3",), ("mod(a, 4) == 0", "a >= 8"), ("a <= 10", "b <= 5"),
        ("floordiv(a, 2) >= 3",), ("a*b == c",), ("max(a, b) >= 4",), ("a + b <= 7",),
    ]  # fmt: skip

    def expression(depth: int) -> str:
        if not depth:
            return draw.choice(["a", "b", "c", "a", "b", str(draw.randint(-4, 6))])
        x, y = expression(depth - 1), expression(draw.randint(0, depth - 1))
        form = draw.choice(
            ["({}) + ({})", "({}) - ({})", "({}) * ({})", "max_dim({}, {})", "min_dim({}, {})",
             "({}) // 2", "({}) % 3", "({}) // 4", "-({})", "({}) // ({})"]
        )  # fmt: skip
        return form.format(x, y)

    for _ in range(count):
        left, right = expression(draw.randint(1, 3)), expression(draw.randint(0, 2))
        relation = draw.choice([">=", "<=", ">", "<", "=="])
        yield draw.choice(known), draw.choice([left, f"{left} {relation} {right}"])


def all_functions() -> list[tuple[str, str, tuple[str, ...]]]:
    return CASES
