"""Every error names the value, the line and what to write."""

import pytest

import weft.errors
from weft.base import errors


class Aval:
    def str_short(self, short_dtypes=False):
        return "float32[3]"


class FakeTracer:
    aval = Aval()

    def _origin_msg(self):
        return "It depends on the argument x of f, traced for jit."


BASES = {
    "ConcretizationTypeError": (errors.JAXTypeError,),
    "InconclusiveDimensionOperation": (Exception,),
    "JAXIndexError": (IndexError,),
    "JAXTypeError": (TypeError,),
    "JaxRuntimeError": (RuntimeError,),
    "JaxprTypeError": (TypeError,),
    "KeyReuseError": (errors.JAXTypeError,),
    "NonConcreteBooleanIndexError": (errors.JAXIndexError,),
    "TracerArrayConversionError": (errors.JAXTypeError,),
    "TracerBoolConversionError": (errors.ConcretizationTypeError,),
    "TracerIntegerConversionError": (errors.JAXTypeError,),
    "UnexpectedTracerError": (errors.JAXTypeError,),
}


@pytest.mark.parametrize("name", BASES)
def test_bases_and_public_home(name):
    kind = getattr(weft.errors, name)
    assert kind.__bases__ == BASES[name]
    assert kind.__module__ == "weft.errors" and kind.__doc__
    assert isinstance(kind("x"), kind)


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (errors.ConcretizationTypeError, "static_argnames"),
        (errors.NonConcreteBooleanIndexError, "jnp.where"),
        (errors.TracerArrayConversionError, "jnp.sin"),
        (errors.TracerIntegerConversionError, "lax.fori_loop"),
        (errors.TracerBoolConversionError, "lax.cond"),
    ],
)
def test_texts(kind, advice):
    text = str(kind(FakeTracer()))
    assert "float32[3]" in text and "FakeTracer" in text
    assert "test_errors.py:" in text and "in test_texts" in text
    assert "argument x of f" in text
    assert advice in text
    assert "http" not in text


def test_context_comes_first():
    text = str(errors.ConcretizationTypeError(FakeTracer(), "The `int` function was called."))
    assert text.startswith("The `int` function was called: a concrete value is needed")


def test_leak():
    error = errors.leaked_tracer(FakeTracer())
    assert type(error) is errors.UnexpectedTracerError
    assert "float32[3]" in str(error) and "Return them" in str(error)


def test_tracers_without_anything():
    assert "object" in str(errors.TracerBoolConversionError(object()))
