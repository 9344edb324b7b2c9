"""A check of variables against the module they are for: everything that is wrong, at once."""

from collections.abc import Sequence
from typing import Any

import weft
from weft import numpy as jnp
from weft import tree_util
from weft.linen.meta import unbox
from weft.linen.module import ALL_BUT_INTERMEDIATES
from weft.linen.traverse_util import flatten_dict


def check_variables(
    module: Any,
    variables: Any,
    *args: Any,
    rngs: Any = None,
    collections: Sequence[str] = ("params",),
    **kwargs: Any,
) -> None:
    """Raise a ValueError that lists missing, extra and misshapen variables and wrong dtypes.

    ``apply`` itself looks only at what the module uses. Nothing is computed here.

    Args:
        module: the module.
        variables: the variables to check, by collection.
        *args: the arguments that the module would be called with, or their shapes.
        rngs: the keys of random streams, if the module needs them.
        collections: the collections to check.
        **kwargs: the keyword arguments of the call.

    Example:
        >>> from weft import linen as nn
        >>> check_variables(nn.Dense(2), {"params": {"kernel": jnp.ones((3, 2))}}, jnp.ones(3))
        Traceback (most recent call last):
          ...
        ValueError: the variables do not fit Dense:
          params/bias is missing, float32[2]
    """
    streams = rngs if rngs is not None else weft.random.key(0)
    options = {"mutable": ALL_BUT_INTERMEDIATES, **kwargs}
    wanted = weft.eval_shape(lambda: module.init(streams, *args, **options))
    faults = []
    for col in collections:
        needed = flatten_dict(_plain(wanted.get(col, {})), sep="/")
        given = flatten_dict(_plain(variables.get(col, {})), sep="/")
        for path in sorted(needed.keys() | given.keys()):
            fault = _fault(given.get(path), needed.get(path))
            if fault:
                faults.append(f"  {col}/{path} {fault}")
    if faults:
        lines = "\n".join(faults)
        raise ValueError(f"the variables do not fit {type(module).__name__}:\n{lines}")


def _plain(tree):
    return tree_util.tree_map(lambda x: x, unbox(tree))


def _type(x) -> str:
    return f"{jnp.result_type(x)}[{','.join(map(str, jnp.shape(x)))}]"


def _fault(given, needed) -> str | None:
    if given is None:
        return f"is missing, {_type(needed)}"
    if needed is None:
        return f"is extra, {_type(given)}"
    if jnp.shape(given) != jnp.shape(needed) or jnp.result_type(given) != needed.dtype:
        return f"is {_type(given)}, not {_type(needed)}"
    return None
