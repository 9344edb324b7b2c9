"""The road of a call: where it runs, and then the client that runs it.

Nothing here asks what kind of device a client has; `weft.runtime.client` says what each can do.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base import checking, errors, knobs
from weft.base.lazy import Late
from weft.core import processes
from weft.core import sharding as meshes
from weft.core.sharding import Sharding
from weft.core.trace import state, typeof
from weft.runtime import observed, site
from weft.runtime.array import ArrayImpl, box
from weft.runtime.client import Donated, host
from weft.runtime.clients import brought, check_execution
from weft.runtime.devices import Device
from weft.runtime.patterns import CallPattern, Pattern
from weft.runtime.places import default_placement, on_device, placement

# loaded when arrays are divided over processes, or sums are left to be made; and when single
# operations become programs
divided, programs = Late("weft.runtime.divided"), Late("weft.runtime.programs")


def evaluate(primitive: Any, args: Any, params: dict[str, Any]) -> Any:
    """Compute a primitive and box the results."""
    if meshes.sums_left and divided.leaves_sums(primitive, args, params):
        return divided.SUMS.evaluate(primitive, args, params)
    if site.is_home(primitive, args, params):
        try:
            return host().evaluate(primitive, args, params)
        except errors.InconclusiveDimensionOperation:
            raise errors.unknown_sizes(str(params.get("name", primitive))) from None
    params = site.as_observed(primitive, args, params)

    @functools.cache
    def program() -> Any:
        return programs.of_operation(primitive, [typeof(x) for x in args], params)

    if processes.count > 1 and divided.spans(args, site.says_where(program())):
        return divided.PROCESSES.evaluate(primitive, args, params)
    where = site.of_operation(primitive, args, params, program)
    if where is None:
        return _moved(primitive, args, params)
    return where.client.evaluate(primitive, args, params, where.places)


def _moved(primitive: Any, args: Any, params: dict[str, Any]) -> list[Any]:
    """Arrays at the places of ``device_put``, wherever they are."""
    results = args
    if site.is_watched():
        results = host().evaluate(primitive, brought(args), params)
    found = []
    for x, result, to in zip(args, results, params["devices"], strict=True):
        to = getattr(to, "sharding", to)  # of a format
        if type(result) is not ArrayImpl:
            aval = typeof(result)
            result = box(np.array(result, aval.dtype), aval)
        where = x._type.placement if type(x) is ArrayImpl else default_placement()
        if isinstance(to, Device):
            where = on_device(to)
        elif isinstance(to, Sharding):
            where = placement(to, True)
        found.append(result._at(where))
    return found


def _site(closed: Any, args: Sequence[Any], name: str) -> site.Site:
    """Where a program runs on arguments."""
    if meshes.sums_left and site.has_sums(closed):
        return site.Site(divided.SUMS)
    if processes.count > 1 and divided.spans(args, site.says_where(closed)):
        return site.Site(divided.PROCESSES)
    return site.of_program(closed, args, name)


def call_program(closed: Any, leaves: Sequence[Any]) -> list[Any]:
    """The results of a program on arrays and numbers of its types."""
    name = getattr(closed.debug_info, "func_name", "a program")
    check_execution(name)
    where = _site(closed, leaves, name)
    found = where.client.call(closed, leaves, where.places)
    checking.settle()  # an operation outside of jit raises where it stands
    return found  # type: ignore[no-any-return]


def call_donating(
    primitive: Any, args: Sequence[Any], params: dict[str, Any], refs: Any = ()
) -> Any:
    """The results of a call, which may be in the memory of donated arguments.

    What references hold is donated too where it will be written; ``refs`` says who else has it.
    """
    name = params.get("name", primitive.name)
    check_execution(name)
    callee = primitive.callee(params)
    if site.is_watched() or callee.effects:
        return primitive.bind(*args, **params)
    where = _site(callee, args, name)
    return where.client.call(callee, args, where.places, Donated(params["donated_invars"], refs))


def remember(pattern: Pattern) -> bool:
    """Let native code answer calls like one, if it is ready to; False if it is too early to say."""
    closed = pattern.closed
    if site.is_watched() or state.axis_env or leaves_sums(closed):
        return type(pattern) is CallPattern  # an operation may come again
    if type(pattern) is CallPattern:
        if pattern.given is not None:
            return host().remember(pattern)
        # those with effects as in ``call_donating``
        if (any(pattern.donated) and closed.effects) or observed.looks(closed):
            return True
    where = _site(closed, pattern.operands, "a program")
    if checking.asked() is not None and not where.client.memory.is_host:
        if type(pattern) is not CallPattern:
            return True
        return where.client.remember_watched(pattern, where.places, checking.asked())
    return where.client.remember(pattern, where.places)


def leaves_sums(closed: Any) -> bool:
    """Whether a program has sums that are left to be made: it is not called by native code."""
    return meshes.sums_left and site.has_sums(closed)


def compile_eagerly(closed: Any) -> bool:
    """Have the code of an eager operation, at the expense of those to come, if memory allows."""
    return leaves_sums(closed) or host().compile_eagerly(closed)


def is_restricted() -> bool:
    """Whether a computation must be looked at before it runs."""
    thread = knobs.thread
    if thread.no_execution or thread.default_device is not None or state.axis_env:
        return True
    if thread.debug_key_reuse or checking.asked() is not None:
        return True
    return not host().is_loaded()
