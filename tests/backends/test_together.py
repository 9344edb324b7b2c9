"""Texts that share a module in LLVM, and the objects that are made of it."""

import ctypes
import sys
import threading

import pytest

from tests.backends.modules import module
from weft.backends.llvm.native import compiling, loader, machine
from weft.backends.llvm.native.compiling import Batch, compile_parts
from weft.backends.llvm.native.together import MAX_JOINED_LINES, apart, joinable, joint
from weft.base.switches import INTERVAL, BriskSwitches

TEXT = """@numbers = private unnamed_addr constant [2 x double] [double 0.5, double 2.25]
declare double @llvm.fma.f64(double, double, double)
define internal double @helper(double %x) #0 {{
entry:
  %p = getelementptr double, ptr @numbers, i64 1
  %c = load double, ptr %p
  %y = call double @llvm.fma.f64(double %x, double {0}.125, double %c)
  ret double %y
}}
define double @kernel(double %x) #0 {{
entry:
  %y = call double @helper(double %x)
  ret double %y
}}
attributes #0 = {{ nounwind }}
"""

pytestmark = pytest.mark.skipif(not loader.supported(), reason="objects are loaded by LLVM here")


def called(blob, x):
    region = loader.load(blob)
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(region.symbols["kernel"])(x)


@pytest.mark.parametrize("care", ["", "; quick\n"])
def test_texts_in_one_module_become_the_objects_that_they_are_alone(care):
    texts = [module(care + TEXT.format(i)) for i in range(3)]
    assert all(map(joinable, texts))
    found = compile_parts(texts)
    assert [called(blob, 2.0) for blob in found] == [2.5, 4.5, 6.5]
    for blob, text in zip(found, texts, strict=True):
        [alone] = compile_parts([text])
        assert loader.code(blob) == loader.code(alone)
        assert set(loader.load(blob).symbols) >= {"kernel"}
        assert len(blob) < 2 * len(alone)


@pytest.mark.parametrize("text", [
    "; brief\n" + TEXT.format(1),
    TEXT.format(1).replace("nounwind", "nounwind optnone noinline"),
    TEXT.format(1).replace("entry:\n", "entry:\n" + "  fence acquire\n" * MAX_JOINED_LINES),
    TEXT.format(1) + "!0 = !{}\n",
])  # fmt: skip
def test_other_texts_have_a_module_of_their_own(text):
    assert not joinable(module(text))


def test_texts_that_declare_one_name_differently_stay_apart():
    other = TEXT.format(2).replace("double)\ndefine", "double) nounwind\ndefine", 1)
    both = [module(TEXT.format(1)), module(other)]
    assert joint(both) is None
    assert [called(blob, 2.0) for blob in compile_parts(both)] == [4.5, 6.5]


def test_an_object_of_one_text_is_left_whole():
    [alone] = compile_parts([module(TEXT.format(1))])
    assert loader.code(alone) and apart(alone, 0) == []


def test_a_batch_shares_out_what_waits(monkeypatch):
    groups = []
    made = compiling.compile_parts

    def noted(texts):
        groups.append(list(texts))
        return made(texts)

    monkeypatch.setattr(compiling, "compile_parts", noted)
    monkeypatch.setattr(compiling, "threads", lambda: 1)
    texts = {bytes([i]) * 32: module(TEXT.format(i)) for i in range(4)}
    with Batch() as batch:
        for key, text in texts.items():
            batch.add(key, text)
        quick = {bytes([i]) * 32: module("; quick\n" + TEXT.format(i)) for i in (8, 9)}
        for key, text in quick.items():
            batch.add(key, text)
        objects = batch.finish()
    assert [called(objects[key], 0.0) for key in texts] == [2.25] * 4
    assert [called(objects[key], 1.0) for key in quick] == [10.375, 11.375]
    assert sorted(map(len, groups)) == [2, 4]


def test_what_llvm_refuses_is_told_for_each_text():
    bad = TEXT.format(1).replace("ret double %y", "ret double %nothing")
    with Batch() as batch, pytest.raises(RuntimeError, match="LLVM refused"):
        batch.add(b"a" * 32, module(bad))
        batch.add(b"b" * 32, module(TEXT.format(2)))
        batch.finish()


def test_switches_are_brisk_for_as_long_as_anybody_needs_them():
    before, scope = sys.getswitchinterval(), BriskSwitches()
    both, go = threading.Barrier(2), threading.Event()

    def other():
        with scope:
            both.wait()
            go.wait()

    thread = threading.Thread(target=other)
    with scope:
        thread.start()
        both.wait()
    assert sys.getswitchinterval() == pytest.approx(INTERVAL)
    go.set()
    thread.join()
    assert sys.getswitchinterval() == before
    with scope:
        sys.setswitchinterval(0.004)  # by somebody else
    assert sys.getswitchinterval() == pytest.approx(0.004)
    sys.setswitchinterval(before)


def test_a_check_of_the_cache_takes_objects_of_either_kind():
    twice = (
        "ret double %y\n}\nattributes",
        "%z = fadd double %y, %y\n  ret double %z\n}\nattributes",
    )
    texts = [module(TEXT.format(1)), module(TEXT.format(1).replace(*twice))]
    keys = [b"1" * 32, b"2" * 32]
    objects = dict(zip(keys, compile_parts(texts), strict=True))
    machine._compare(dict(zip(keys, texts, strict=True)), objects, set())
    with pytest.raises(RuntimeError, match="other code"):
        machine._compare(dict(zip(keys, texts[::-1], strict=True)), objects, set())
    alone = {keys[0]: compile_parts(texts[:1])[0]}
    machine._compare({keys[0]: texts[0]}, alone, set())
    with pytest.raises(RuntimeError, match="other code"):  # where a constant differs, too
        machine._compare({keys[0]: module(TEXT.format(2))}, alone, set())
