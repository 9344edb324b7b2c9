"""Code as a value: functions and modules renamed, joined, divided, and given what they lack."""

import pickle

import pytest

from weft.backends.llvm import code
from weft.backends.llvm.code import Call, Effort, Function, Memory, Module, Parameter, hole


def doubling(**fields):
    lines = (Call("  %y = call i64 ", "twice", ["i64 %x"]), "  ret i64 %y")
    return Function("doubling", code.parameters("i64", "x"), lines, "i64", **fields)


def twice():
    given = code.parameters("i64", "x")
    lines = ("  %y = add i64 %x, %x", "  ret i64 %y")
    return Function("twice", given, lines, "i64", ("nounwind", "alwaysinline"), internal=True)


def test_text_is_what_llvm_reads():
    text = """\
; loop
define internal i64 @twice(i64 %x) nounwind alwaysinline {
  %y = add i64 %x, %x
  ret i64 %y
}
define i64 @doubling(i64 %x) nounwind {
  %y = call i64 @twice(i64 %x)
  ret i64 %y
}
"""
    assert str(Module([twice(), doubling()], effort=Effort.LOOP)) == text


def test_names_change_wherever_they_are_called():
    made = Module([twice(), doubling()]).renamed({"twice": "double"})
    assert made.names == ["double", "doubling"] and made.function("doubling").calls == ("double",)
    assert "@twice" not in str(made)


def test_a_call_is_a_line_that_knows_whom_it_calls():
    line = doubling().lines[0]
    assert line == "  %y = call i64 @twice(i64 %x)" and line.name == "twice"
    assert pickle.loads(pickle.dumps(line)).arguments == ("i64 %x",)


def test_joined_modules_have_everything_once():
    one = Module([doubling()], {"twice": twice().declaration(), "f": "declare void @f()"})
    made = one.joined(Module([twice()], {"f": "declare void @f()"}, [Memory("c", "constant i8 1")]))
    assert made.names == ["doubling", "twice"] and list(made.declared) == ["f"]
    assert [str(x) for x in made.memory] == ["@c = constant i8 1"]


def test_selected_functions_declare_the_others():
    memory = [Memory("own", "constant i8 1"), Memory("other", "constant i8 2")]
    whole = Module([twice(), doubling(memory=frozenset(["own"]))], memory=memory)
    made = whole.selected([whole.function("doubling")])
    assert made.declared == {"twice": "declare i64 @twice(i64)"}
    assert [x.name for x in made.memory] == ["own"]


def test_holes_are_filled():
    lines = (f"  %y = mul i32 {hole('n')}, {hole('n')}", Call("  call void ", "f", [hole("m")]))
    made = Module([Function("g", (), lines)])
    assert made.functions[0].holes() == [
        ("  %y = mul i32 ", "n"),
        (", ", "n"),
        ("  call void @f(", "m"),
    ]
    some = made.filled({"n": "7"})
    assert "mul i32 7, 7" in str(some) and some.functions[0].calls == ("f",)
    assert "call void @f(i64 3)" in str(some.filled({"m": "i64 3"}))
    assert hole("n")[0] == "%"  # what writes indices takes it for a register


def test_a_parameter_is_passed_on():
    table = Parameter("ptr", "table")
    inner, outer = (f.passing(table, ["twice"]) for f in (twice(), doubling()))
    assert inner.parameters[0] == table and len(outer.parameters) == 1
    assert outer.lines[0].arguments == ("ptr %table", "i64 %x")


def test_modules_are_equal_by_their_text():
    assert Module([twice()]) == Module([twice()]) != Module([twice()], effort=Effort.QUICK)
    assert len({Module([twice()]), Module([twice()])}) == 1
    assert pickle.loads(pickle.dumps(Module([doubling()]))) == Module([doubling()])


def test_what_was_read_from_a_file_stays_as_it_is():
    with pytest.raises(TypeError, match="read from a file"):
        code.Verbatim("define void @f() {\n}\n").renamed({"f": "g"})
