"""A primitive of third parties, whose rules are given one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.base.knobs import context_key
from weft.control.jit import numpy_consts
from weft.core.batching import AxisData
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

    def __init__(self, name: str) -> None:
        self.name = name
        self._impl: Callable[..., Any] | None = None
        self._lowering: Callable[..., Any] | None = None
        self._programs: dict[Any, ClosedJaxpr] = {}
        self._abstract: Callable[..., Any] | None = None
        self._jvp: Callable[..., Any] | None = None
        self._effectful = False
        self.differentials = ()

    # --- giving rules -----------------------------------------------------------------------------

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """How the primitive is computed, on concrete arrays."""
        self._impl = impl
        return impl

    def def_lowering(self, lowering: Callable[..., Any]) -> Callable[..., Any]:
        """The primitive as a function of other primitives."""
        self._lowering = lowering
        self._programs.clear()
        return lowering

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Types of the results from types of the operands."""
        self._abstract = rule
        self._effectful = False
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Types of the results, and effects."""
        self._abstract = rule
        self._effectful = True
        self.eqn_effects = lambda avals, params: frozenset(rule(*avals, **params)[1])
        return rule

    def def_jvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """``rule(primals, tangents, **params) -> (results, tangents of results)``."""
        self._jvp = rule
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

    def shape(self, *avals: Any, **params: Any) -> Any:
        if self._abstract is None:
            raise self._missing("abstract evaluation", "def_abstract_eval")
        result = self._abstract(*avals, **params)
        result = result[0] if self._effectful else result
        if isinstance(result, (list, tuple)) != bool(self.multiple_results):
            wanted = "a list of types" if self.multiple_results else "one type"
            raise ValueError(
                f"the abstract evaluation of {self.name} must return {wanted}, as its"
                f" multiple_results is {self.multiple_results}; it returned {result!r}"
            )
        return result

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        if self._jvp is None:
            raise self._missing("differentiation", "def_jvp")
        return self._jvp(primals, tangents, **params)

    def evaluate(self, args: Any, params: dict[str, Any]) -> Any:
        function = self._impl or self._lowering
        if function is None:
            raise self._missing("evaluation", "def_impl")
        return function(*args, **params)

    def ref(self, *values: Any, **params: Any) -> Any:  # type: ignore[override]
        if self._lowering is not None:
            return self._run_lowering(values, params)
        if self._impl is None:
            raise self._missing("evaluation", "def_impl")
        boxed = [box(np.asarray(v), typeof(np.asarray(v))) for v in values]
        result = self._impl(*boxed, **params)
        if self.multiple_results:
            return [np.asarray(x) for x in result]
        return np.asarray(result)

    def program(self, avals: Any, params: dict[str, Any]) -> ClosedJaxpr | None:
        """The lowering as a program, which compiled code has in the place of the primitive."""
        lowering = self._lowering
        if lowering is None:
            return None
        key: Any = None
        found: ClosedJaxpr | None = None
        try:
            key = (tuple(avals), tuple(params.items()), context_key())
            found = self._programs.get(key)
        except TypeError:  # a parameter without a hash
            key = None
        if found is None:

            def flat(*args: Any) -> Any:
                result = lowering(*args, **params)
                return result if self.multiple_results else [result]

            found = stage(flat, avals)
            if key is not None and len(self._programs) < MAX_PROGRAMS:
                self._programs[key] = found
        return found

    def _run_lowering(self, values: Any, params: dict[str, Any]) -> Any:
        closed = self.program([typeof(v) for v in values], params)
        assert closed is not None
        outs = run(closed.jaxpr, numpy_consts(closed), values)
        return outs if self.multiple_results else outs[0]
