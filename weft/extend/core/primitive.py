"""A primitive of third parties, whose rules are given one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.base.knobs import context_key
from weft.control.jit import numpy_consts
from weft.core.batching import AxisData
from weft.core.effects import no_effects
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive as _Primitive
from weft.core.staging import stage
from weft.core.trace import box, typeof

# Programs of its lowering that a primitive keeps, one for each type of its operands.
MAX_PROGRAMS = 256


class Primitive(_Primitive):
    """A primitive whose rules are given one by one.

    ``def_impl`` says how it is computed on arrays, or ``def_lowering`` gives it as a function of
    other primitives; ``def_abstract_eval`` gives the types of its results.

    Args:
        name: its name.

    Example:
        >>> import numpy as np
        >>> from weft.extend.core import Primitive
        >>> double_p = Primitive("double")
        >>> _ = double_p.def_impl(lambda x: 2 * x)
        >>> double_p.bind(np.float32(3.0))
        np.float32(6.0)
    """

    # Rules are methods, so that a subclass may have them instead; names that are not JAX's have two
    # underscores, as those of subclasses are unknown.

    def __init__(self, name: str) -> None:
        self.name = name
        self.__lowering: Callable[..., Any] | None = None
        self.__programs: dict[Any, ClosedJaxpr] = {}
        self.differentials = ()
        if type(self).abstract_eval is not Primitive.abstract_eval:
            self.__find_effects()

    # --- giving rules -----------------------------------------------------------------------------

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """How the primitive is computed, on concrete arrays."""
        self.impl = impl  # type: ignore[method-assign]
        return impl

    def def_lowering(self, lowering: Callable[..., Any]) -> Callable[..., Any]:
        """The primitive as a function of other primitives."""
        self.__lowering = lowering
        self.__programs.clear()
        return lowering

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Types of the results from types of the operands."""

        def abstract_eval(*avals: Any, **params: Any) -> tuple[Any, Any]:
            return rule(*avals, **params), no_effects

        self.abstract_eval = abstract_eval  # type: ignore[method-assign]
        self.eqn_effects = None
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Types of the results, and effects."""
        self.abstract_eval = rule  # type: ignore[method-assign]
        self.__find_effects()
        return rule

    def __find_effects(self) -> None:
        def eqn_effects(avals: Any, params: dict[str, Any]) -> frozenset[Any]:
            return frozenset(self.abstract_eval(*avals, **params)[1])

        self.eqn_effects = eqn_effects

    def def_jvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """``rule(primals, tangents, **params) -> (results, tangents of results)``."""
        self.jvp = rule  # type: ignore[method-assign]
        return rule

    def def_transpose(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """``rule(cotangents, *operands, **params) -> cotangents of operands``."""
        self.transpose = rule
        return rule

    def def_batching(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """``rule(operands, batch_dims, **params) -> (results, their batch_dims)``."""

        def batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
            return rule(args, dims, **params)

        self.batch = batch
        return rule

    def def_bind_with_trace(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        self.bind_with_trace = rule  # type: ignore[method-assign]
        return rule

    # --- the rules, as the interpreters ask for them ----------------------------------------------

    def _missing(self, what: str, how: str) -> NotImplementedError:
        return NotImplementedError(
            f"{what} of primitive {self.name!r} is not defined; give it with"
            f" {self.name}_p.{how}(...)"
        )

    def impl(self, *args: Any, **params: Any) -> Any:
        """How the primitive is computed, on concrete arrays; a subclass may define it."""
        raise self._missing("evaluation", "def_impl")

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, Any]:
        """Types of the results, and effects; a subclass may define it."""
        raise self._missing("abstract evaluation", "def_abstract_eval")

    @property
    def has_impl(self) -> bool:
        """Whether it is said how the primitive is computed on arrays."""
        return getattr(self.impl, "__func__", None) is not Primitive.impl

    def shape(self, *avals: Any, **params: Any) -> Any:
        result, _ = self.abstract_eval(*avals, **params)
        if isinstance(result, (list, tuple)) != bool(self.multiple_results):
            wanted = "a list of types" if self.multiple_results else "one type"
            raise ValueError(
                f"the abstract evaluation of {self.name} must return {wanted}, as its"
                f" multiple_results is {self.multiple_results}; it returned {result!r}"
            )
        return result

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        raise self._missing("differentiation", "def_jvp")

    def evaluate(self, args: Any, params: dict[str, Any]) -> Any:
        if self.__lowering is not None and not self.has_impl:
            return self.__lowering(*args, **params)
        return self.impl(*args, **params)

    def ref(self, *values: Any, **params: Any) -> Any:  # type: ignore[override]
        if self.__lowering is not None:
            return self._run_lowering(values, params)
        boxed = [box(np.asarray(v), typeof(np.asarray(v))) for v in values]
        result = self.impl(*boxed, **params)
        if self.multiple_results:
            return [np.asarray(x) for x in result]
        return np.asarray(result)

    def program(self, avals: Any, params: dict[str, Any]) -> ClosedJaxpr | None:
        """The lowering as a program, which compiled code has in the place of the primitive."""
        lowering = self.__lowering
        if lowering is None:
            return None
        key: Any = None
        found: ClosedJaxpr | None = None
        try:
            key = (tuple(avals), tuple(params.items()), context_key())
            found = self.__programs.get(key)
        except TypeError:  # a parameter without a hash
            key = None
        if found is None:

            def flat(*args: Any) -> Any:
                result = lowering(*args, **params)
                return result if self.multiple_results else [result]

            found = stage(flat, avals)
            if key is not None and len(self.__programs) < MAX_PROGRAMS:
                self.__programs[key] = found
        return found

    def _run_lowering(self, values: Any, params: dict[str, Any]) -> Any:
        closed = self.program([typeof(v) for v in values], params)
        assert closed is not None
        outs = run(closed.jaxpr, numpy_consts(closed), values)
        return outs if self.multiple_results else outs[0]
