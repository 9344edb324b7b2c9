"""Rules of ``sparsify`` for branches and loops: sparse values are carried as their buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import lax
from weft.core.jaxpr import JaxprEqn
from weft.experimental.sparse.base import JAXSparse
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcsr import BCSR
from weft.tree.functions import tree_structure

Evaluate = Callable[[Any, Any], list[Any]]


def branch(evaluate: Evaluate, eqn: JaxprEqn, index: Any, *operands: Any) -> list[Any]:
    """``cond`` and ``switch``: all branches must give arrays of one format and size."""
    branches = [
        lambda *given, jaxpr=jaxpr: [_plain(x) for x in evaluate(jaxpr, given)]
        for jaxpr in eqn.params["branches"]
    ]
    return lax.switch(index, branches, *operands)


def while_loop(evaluate: Evaluate, eqn: JaxprEqn, *values: Any) -> list[Any]:
    """``while``: what is carried keeps its format and the number of its stored elements."""
    params = eqn.params
    n, m = params["cond_nconsts"], params["body_nconsts"]
    tested, used, carried = values[:n], values[n : n + m], [_plain(x) for x in values[n + m :]]

    def body(carry: Any) -> Any:
        outs = evaluate(params["body_jaxpr"], [*used, *carry])
        return [_as_carried(x, like) for x, like in zip(outs, carry, strict=True)]

    return lax.while_loop(
        lambda carry: evaluate(params["cond_jaxpr"], [*tested, *carry])[0], body, carried
    )


def scan(evaluate: Evaluate, eqn: JaxprEqn, *values: Any) -> list[Any]:
    """``scan``, and ``fori_loop`` of a known length; sparse inputs are cut by batch dimension."""
    params = eqn.params
    n, m = params["num_consts"], params["num_carry"]
    consts, carried, xs = values[:n], [_plain(x) for x in values[n : n + m]], values[n + m :]

    def step(carry: Any, x: Any) -> Any:
        outs = evaluate(params["jaxpr"], [*consts, *carry, *x])
        after = [_as_carried(out, like) for out, like in zip(outs[:m], carry, strict=True)]
        return after, [_stackable(out) for out in outs[m:]]

    last, ys = lax.scan(
        step,
        carried,
        [_by_batch(x) for x in xs],
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*last, *ys]


def _plain(x: Any) -> Any:
    """A sparse array that promises nothing of its indices: the next round may break the promise."""
    if not isinstance(x, (BCOO, BCSR)):
        return x
    return type(x)(x._bufs, shape=x.shape)


def _as_carried(x: Any, like: Any) -> Any:
    """What a round gives in the format of what it was given."""
    if isinstance(like, BCSR) and isinstance(x, BCOO):
        x = BCSR.from_bcoo(x)
    elif isinstance(like, BCOO) and isinstance(x, BCSR):
        x = x.to_bcoo()
    x = _plain(x)
    if isinstance(like, JAXSparse) and tree_structure(x) != tree_structure(like):
        raise TypeError(f"a loop carries {like}, but its body gives {x}; both must have one format")
    return x


def _by_batch(x: Any) -> Any:
    """Input of a scan, whose first dimension must be a batch dimension stored in full."""
    if not isinstance(x, JAXSparse):
        return x
    if not isinstance(x, (BCOO, BCSR)) or not x.n_batch:
        raise NotImplementedError(
            f"a scan over {x}, whose first dimension is not a batch dimension;"
            " update_layout(n_batch=1) makes it one"
        )
    if any(buffer.shape[0] != x.shape[0] for buffer in x._bufs):
        raise NotImplementedError(
            f"a scan over {x}, which stores the same elements for all of its first dimension"
        )
    return _plain(x)


def _stackable(x: Any) -> Any:
    if isinstance(x, JAXSparse):
        raise NotImplementedError(
            f"the outputs of a scan are stacked, and {x} is sparse; make it dense with"
            " sparse.todense"
        )
    return x
