"""What every configuration here has: sizes that are known by name, and layers in a row."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import weft
from weft import linen as nn
from weft import numpy as jnp


class Config:
    """The base of configurations: frozen dataclasses with ``sizes``, settings by name.

    >>> from weft.linen.architectures import T5Config
    >>> issubclass(T5Config, Config)
    True
    """

    sizes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """The configuration that is known by a name.

        Args:
            name: one of ``sizes``.
            changes: fields with other values than the named configuration has.

        Returns:
            A configuration.

        Example:
            >>> from weft.linen.architectures import T5Config
            >>> T5Config.named("t5-v1_1-base", vocab_size=384).features
            768
        """
        if name not in cls.sizes:
            known = ", ".join(sorted(cls.sizes))
            raise ValueError(f"{cls.__name__} has no size {name!r}; choose one of {known}")
        return cls(**{**cls.sizes[name], **changes})

    def replace(self, **changes: Any) -> Self:
        """A copy with other values of some fields.

        >>> from weft.linen.architectures import T5Config
        >>> T5Config.named("t5-small").replace(encoder_layers=2).encoder_layers
        2
        """
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


def run_layers(
    make: Callable[[str], nn.Module],
    count: int,
    call: Callable[[nn.Module, Any], Any],
    x: Any,
    *,
    scan: bool = False,
    remat: bool = False,
) -> Any:
    """Pass ``x`` through ``count`` equal layers, in a compact method of the module that owns them.

    Args:
        make: makes a layer of a given name.
        count: how many layers there are.
        call: applies a layer to ``x``.
        x: the input of the first layer.
        scan: run the layers as one loop. Their variables are then in one layer, ``layers``, with
            an axis for the layers in front: the program compiles as fast as that of one layer.
        remat: compute the values inside a layer again for the gradient, instead of keeping them.

    Returns:
        The output of the last layer. Variables are in ``layers_0``, ... or in ``layers``.
    """
    body = nn.remat(call) if remat else call
    if scan:
        loop = nn.scan(
            lambda layer, carry, _: (body(layer, carry), None),
            variable_axes={"params": 0, "cache": 0},
            split_rngs={"params": True, "dropout": True},
            length=count,
        )
        return loop(make("layers"), x, None)[0]
    for i in range(count):
        x = body(make(f"layers_{i}"), x)
    return x


def stack_layers(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of separate layers as those of scanned ones: ``layers_0``, ... become ``layers``.

    Args:
        params: the parameters of a network with ``scan_layers=False``, or a part of them.

    Returns:
        The parameters of the same network with ``scan_layers=True``.

    Example:
        >>> import weft.numpy as jnp
        >>> stack_layers({"layers_0": {"w": jnp.ones(2)}, "layers_1": {"w": jnp.ones(2)}})
        {'layers': {'w': Array([[1., 1.],
               [1., 1.]], dtype=float32)}}
    """
    result: dict[str, Any] = {}
    layers: dict[int, Any] = {}
    for name, value in params.items():
        head, _, number = name.rpartition("_")
        if head == "layers" and number.isdigit():
            layers[int(number)] = value
        else:
            result[name] = stack_layers(value) if isinstance(value, Mapping) else value
    if layers:
        rows = [layers[i] for i in sorted(layers)]
        result["layers"] = weft.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    return result
