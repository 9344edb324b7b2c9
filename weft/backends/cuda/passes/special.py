"""Operations of a special form written as others, which fuse or which libraries do better.

A scatter that adds to one element of each row, as the gradient of picking one is, becomes a
comparison of positions; the zeros it would add to are never written. A convolution whose window
has one element, or whose window is all there is, becomes a product of matrices; one with strides,
of few channels, one without, of more; one with other padding before than after, one of what is
padded; of narrow floats with channels first, one with channels last. One of a dilated image with a
filter for each channel becomes a sum over the filter's elements. A product of vectors and
matrices becomes sums, which fuse.
"""

from __future__ import annotations

from weft.compiler.expand import decomposition, substituted
from weft.compiler.lower import find, fits
from weft.compiler.passes.cse import cse
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn

# Lowerings by the primitives whose special forms they are for.
_LOWERINGS = {
    "scatter-add": ("one_per_row.add",),
    "conv_general_dilated": (
        *("pointwise.convolve", "taps.convolve", "folded.convolve", "padded.convolve"),
        "channels_last.convolve",
    ),
    "dot_general": ("vectors.dot",),
}


def special(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with such operations as functions of others."""
    jaxpr = substituted(closed.jaxpr, _program)
    return closed if jaxpr is closed.jaxpr else cse(ClosedJaxpr(jaxpr, closed.consts))


def inner_products(jaxpr: Jaxpr) -> Jaxpr:
    """The program with products of vectors as sums: of many vectors they are few kernels, and a
    library has one block for each. In loops of one kernel they are products, by all threads."""
    return substituted(jaxpr, _inner_product)


def _inner_product(eqn: JaxprEqn) -> Jaxpr | None:
    if eqn.primitive.name != "dot_general" or eqn.outvars[0].aval.size != 1:
        return None
    if not fits("vectors.inner", [x.aval for x in eqn.invars], eqn.params):
        return None
    return decomposition(eqn, find("vectors.inner"))


def _program(eqn: JaxprEqn) -> Jaxpr | None:
    for name in _LOWERINGS.get(eqn.primitive.name, ()):
        if fits(name, [x.aval for x in eqn.invars], eqn.params):
            return decomposition(eqn, find(name))
    return None
