"""Modules whose parts are compiled apart, and loaded together."""

import ctypes

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.backends.modules import module
from weft.backends.llvm.code import Effort
from weft.backends.llvm.native import loader
from weft.backends.llvm.native.compiling import compile_now
from weft.backends.llvm.native.parts import divided, joined, taken_apart

TEXT = """declare i64 @llvm.smin.i64(i64, i64)
define internal i64 @double(i64 %x, i64 %most) #0 {
entry:
  %y = add i64 %x, %x
  %z = call i64 @llvm.smin.i64(i64 %y, i64 %most)
  ret i64 %z
}
define i64 @kernel(i64 %x) nounwind noinline optnone {
entry:
  %y = call i64 @double(i64 %x, i64 100)
  %z = add i64 %y, 1
  ret i64 %z
}
attributes #0 = { nounwind }
"""


def test_a_walk_and_what_it_calls_are_two_texts():
    first, second = divided(module(TEXT))
    assert first.names == ["double"] and not first.functions[0].internal
    assert second.effort is Effort.QUICK and "declare i64 @double(i64, i64)" in str(second)
    assert second.names == ["kernel"] and "optnone" not in str(second)


@pytest.mark.parametrize("called", ["llvm.smin.i64", "double"])
def test_functions_that_call_no_other_are_a_text_each(called):
    begin, end = TEXT.index("define internal"), TEXT.index("define i64 @kernel")
    other = TEXT[begin:end].replace("@double(", "@triple(").replace("llvm.smin.i64", called)
    text = TEXT[:end] + other + TEXT[end:].replace("@double(", "@triple(")
    *parts, last = divided(module(text))
    assert len(parts) == (2 if called.startswith("llvm") else 1) and last.effort is Effort.QUICK
    region = loader.load(compile_now(module(text)))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(region.symbols["kernel"])
    assert call(3) == (7 if len(parts) == 2 else 13)


@pytest.mark.parametrize("text", [
    TEXT.replace(" noinline optnone", ""),
    "@number = private global i64 3\n" + TEXT,
    "; quick\n" + TEXT,
])  # fmt: skip
def test_other_texts_stay_whole(text):
    assert divided(module(text)) == [module(text)]


def test_constants_go_where_they_are_used():
    constant = "@{} = private unnamed_addr constant i64 3\n".format
    used = TEXT.replace("%y = call", "%p = load i64, ptr @number\n  %y = call")
    first, second = map(str, divided(module(constant("number") + constant("other") + used)))
    assert "@number = " in second and "@number = " not in first
    assert "@other" not in first + second


def test_parts_call_each_other():
    region = loader.load(compile_now(module(TEXT)))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(region.symbols["kernel"])
    assert call(3) == 7 and call(300) == 101


def test_objects_are_taken_apart_as_they_were_joined():
    for objects in ([b"one"], [b"one", b"", b"three"]):
        assert taken_apart(joined(objects)) == objects


def test_products_of_all_kinds_with_parts():
    rng = np.random.default_rng(0)
    for shape in ((70, 300, 90), (128, 700, 64), (33, 1025, 17)):
        a, b = rng.normal(size=shape[:2]), rng.normal(size=shape[1:])
        a, b = a.astype(np.float32), b.astype(np.float32)
        got = weft.jit(lambda a, b: jnp.maximum(a @ b, 0))(a, b)
        np.testing.assert_allclose(got, np.maximum(a @ b, 0), rtol=2e-4, atol=2e-4)


def test_long_modules_become_two_halves_of_which_one_calls_the_other():
    lines = "".join(f"  %v{i} = add i64 %v{i - 1}, {i}\n" for i in range(1, 400))
    names = "abcd"
    called = {"a": "b", "b": "a", "c": "a", "d": "c"}  # two of them call each other
    text = "; light\n"
    for name in names:
        text += (
            f"define i64 @{name}(i64 %v0, i1 %go) nounwind {{\nentry:\n{lines}"
            f"  br i1 %go, label %more, label %done\nmore:\n"
            f"  %x = call i64 @{called[name]}(i64 %v399, i1 false)\n  ret i64 %x\n"
            "done:\n  ret i64 %v399\n}\n"
        )
    first, second = divided(module(text))
    assert first.effort is second.effort is Effort.LIGHT
    assert {"a", "b"} <= set(first.names) and second.names
    assert "declare i64 @a(i64, i1)" in str(second)
    region = loader.load(compile_now(module(text)))
    added = sum(range(1, 400))
    for name in names:
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_bool)
        assert call(region.symbols[name])(5, True) == 5 + 2 * added


@pytest.mark.parametrize("lines", range(600, 604))
def test_no_part_is_empty(lines):
    begin, end = TEXT.split("  %y = add i64 %x, %x\n")
    more = "".join(f"  %v{i} = add i64 %x, {i}\n" for i in range(lines))
    end = end.replace("declare i64 @llvm.smin.i64(i64, i64)\n", "")
    text = f"{begin}{more}  %y = add i64 %x, %x\n{end}".split("\n", 1)[1]
    parts = divided(module(text))
    assert len(parts) == 2 and all(part.functions for part in parts)


def test_several_functions_without_care():
    other = "define internal i64 @next(i64 %x) #0 noinline optnone {\nentry:\n  ret i64 %x\n}\n"
    calls = TEXT.replace("add i64 %y, 1", "call i64 @next(i64 %y)").replace(
        "define i64", f"{other}define i64"
    )
    first, second = map(str, divided(module(calls)))
    assert "@next" not in first and "define internal i64 @next" in second
    region = loader.load(compile_now(module(calls)))
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(region.symbols["kernel"])(7) == 14
