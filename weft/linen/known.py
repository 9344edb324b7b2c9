"""What a function computes that does not depend on arguments of which only the types are known."""

import weft
from weft import tree_util
from weft.extend.core import eval_jaxpr
from weft.interpreters.partial_eval import dce_jaxpr


class Unknown(Exception):
    """A result depends on an argument that isn't known; says which."""


def compute_known(fn, known, abstract, keep=lambda out: out):
    """``keep(fn(known, abstract))``, where ``abstract`` holds types, on which it must not depend.

    >>> import weft.numpy as jnp
    >>> aval = weft.ShapeDtypeStruct((3,), jnp.float32)
    >>> compute_known(lambda a, b: jnp.ones(b.shape) * a, 2.0, aval)
    Array([2., 2., 2.], dtype=float32)
    """
    shape = []

    def outputs(unknown):
        out = keep(fn(known, unknown))
        leaves, tree = tree_util.tree_flatten(out)
        shape.append(tree)
        return leaves

    closed = weft.make_jaxpr(outputs)(abstract)
    needed, used = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    if any(used):
        leaves = tree_util.tree_leaves(abstract)
        which = [str(leaf) for leaf, needs in zip(leaves, used) if needs]
        raise Unknown(", ".join(which))
    return tree_util.tree_unflatten(shape[-1], eval_jaxpr(needed, closed.consts))
