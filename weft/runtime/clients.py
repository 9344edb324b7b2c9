"""The two kinds of clients: those on the host's memory, and those with memory of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.base import checking, errors, events, knobs, source
from weft.base.lazy import Late
from weft.core import sharding as meshes
from weft.core.avals import ShapedArray
from weft.core.interpret import run_primitive, storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.core.trace import state, typeof
from weft.runtime.array import ArrayImpl, box
from weft.runtime.client import HOST_MEMORY, NONE, Client, Donated, host
from weft.runtime.patterns import CallPattern
from weft.runtime.places import HOME, Placement, array_type, on_device, placement
from weft.runtime.site import is_away
from weft.tree.nodes import LEAF, Kind, Node
from weft.tree.treedef import treedef_of

# loaded when a knob asks for it
replay = Late("weft.compiler.checks.replay")
instrument = Late("weft.compiler.checks.instrument")
key_reuse = Late("weft.core.key_reuse")
# needed where types carry shardings
explicit = Late("weft.division.explicit")
# loaded when single operations become programs
programs = Late("weft.runtime.programs")


def check_execution(name: str) -> None:
    """Raise RuntimeError under ``no_execution``."""
    if knobs.thread.no_execution:
        raise RuntimeError(
            f"{name} would run, which no_execution forbids; trace it instead, with"
            " eval_shape, make_jaxpr or lower"
        )


def to_numpy(x: Any, aval: Any) -> Any:
    """The NumPy form of an operand, at the dtype of its abstract value."""
    if type(x) is ArrayImpl:
        return x._value
    if type(aval) is not ShapedArray:
        if aval.is_ref:
            raise errors.reference_given("this function", aval)
        return x
    return np.asarray(x, aval.dtype)


def boxed(value: Any, aval: Any, foreign: bool) -> Any:
    """A result as an array; a copy where it may be memory of the caller's own NumPy arrays."""
    if type(aval) is not ShapedArray:
        return value
    return box(value.copy() if foreign else value, aval)


def brought(args: Sequence[Any]) -> Sequence[Any]:
    """Operands with copies in the host's memory of those that are elsewhere."""
    return [x._at(HOME) if is_away(x) else x for x in args]


def placed(results: list[Any], places: Any) -> list[Any]:
    """New arrays of the host's memory, marked with their placements, or moved there."""
    if places and not places[0].memory.is_host:
        found = zip(results, places, strict=True)
        return [x._at(where) if type(x) is ArrayImpl else x for x, where in found]
    for x, where in zip(results, places, strict=True):
        if type(x) is ArrayImpl:
            x._type = array_type(x.aval, where)
            x.aval = x._type.aval
    return results


class HostClient(Client):
    """A client whose arrays are in the memory of the process."""

    memory = HOST_MEMORY
    learns = False  # whether native code takes over from Python what comes again

    @abstractmethod
    def run(self, closed: ClosedJaxpr, args: Sequence[Any], donated: Donated = NONE) -> list[Any]:
        """The results of a program on arrays here, NumPy arrays and Python numbers."""

    @abstractmethod
    def operation(self, primitive: Any, args: Any, avals: Any, out: Any, params: Any) -> Any:
        """The result, or results, of an operation on the same, of type ``out``."""

    def call(
        self, closed: ClosedJaxpr, args: Sequence[Any], places: Any = None, donated: Donated = NONE
    ) -> list[Any]:
        if places is None:
            return self.run(closed, args, donated)
        return placed(self.run(closed, brought(args), donated), places)

    # --- single operations ------------------------------------------------------------------------

    def evaluate(
        self, primitive: Any, args: Sequence[Any], params: dict[str, Any], places: Any = None
    ) -> Any:
        if places is not None:
            args = brought(args)
        found = self._noted(primitive, args, params)
        if places is None:
            return found
        return placed(found, places) if primitive.multiple_results else placed([found], places)[0]

    def _noted(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """The same, told to whoever takes a trace."""
        if events.listener is None or primitive.callee(params) is not None:
            return self._computed(primitive, args, params)
        began = events.begin()
        try:
            return self._computed(primitive, args, params)
        finally:
            where = source.summarize(state.source or source.current())
            events.end(began, "operation", primitive.name, lines=where)

    def _computed(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        if knobs.thread.no_execution and not primitive.relocates:
            check_execution(params.get("name", primitive.name))
        avals, watches = [typeof(x) for x in args], knobs.thread.debug_key_reuse
        masks = key_reuse.before(primitive, avals, args, params) if watches else None
        if meshes.explicit_ones:
            avals = explicit.plain_avals(avals)
        try:
            out = primitive.shape(*avals, **params)
        except Exception as error:
            errors.locate(error, state.source)
            raise
        results = self.operation(primitive, args, avals, out, params)
        if watches:
            key_reuse.after(results if primitive.multiple_results else [results], masks)
        return results

    def by_reference(self, primitive: Any, args: Any, avals: Any, out: Any, params: Any) -> Any:
        """An operation computed by its NumPy reference; loops and branches that are checked are
        programs."""
        if primitive.nodes and checking.asked() is not None and not state.axis_env:
            closed = programs.alone(primitive, avals, params)
            if closed is not None:
                return self.run(closed, args)
        foreign = any(type(x) is np.ndarray for x in args)
        with np.errstate(all="ignore"):
            values = [to_numpy(x, a) for x, a in zip(args, avals, strict=True)]
            result = run_primitive(primitive, out, values, params)
            self.check(primitive, out, values, params, result)
        if primitive.multiple_results:
            return [boxed(v, a, foreign) for v, a in zip(result, out, strict=True)]
        return boxed(result, out, foreign)

    def check(self, primitive: Any, out: Any, values: Any, params: Any, result: Any) -> None:
        """Look at what a reference has computed."""
        asked = checking.asked()
        if asked is not None:
            replay.check_operation(asked, primitive, values, result, params)

    # --- arrays -----------------------------------------------------------------------------------

    def home(self) -> Any:
        return HOME

    def over(self, sharding: Any) -> Client:
        return self

    def wait(self) -> None:
        """There is nothing to wait for: calls return when their results are computed."""

    def is_idle(self) -> bool:
        return True

    def memory_stats(self) -> None:
        return None

    def part(self, x: Any, device: Any, index: tuple[slice, ...]) -> Any:
        value = x._value[index]
        return box(value, x.aval.update(shape=value.shape), on_device(device))

    def to_dlpack(
        self, x: Any, stream: Any, max_version: Any, dl_device: Any, copy: bool | None
    ) -> Any:
        # NumPy refuses to export read-only memory to consumers of the old protocol
        value = x._value
        if copy or max_version is None or max_version[0] < 1:
            return value.copy().__dlpack__()
        return value.__dlpack__(max_version=max_version)

    def array_interface(self, x: Any) -> dict[str, Any]:
        raise AttributeError("__cuda_array_interface__: this array is in the host's memory")


class DeviceClient(Client):
    """A client with memory of its own, which computes single operations as programs too.

    What it has no code for, as programs with values that are no memory, the host computes.
    """

    def owner_of(self, x: Any, aval: Any) -> Any:
        """The memory of an operand on this device; what is elsewhere is copied."""
        if type(x) is ArrayImpl:
            if x._type.placement.client is self:
                owner = x._owner
                return owner if owner is not None else x._make_view()
            return self.memory.moved(x)
        with np.errstate(all="ignore"):  # what is too large for the dtype becomes infinite
            return self.memory.put(np.asarray(x, storage_dtype(aval.dtype)).reshape(aval.shape))

    @abstractmethod
    def run(
        self, closed: ClosedJaxpr, args: Sequence[Any], places: Any, donated: tuple[bool, ...] = ()
    ) -> list[Any] | None:
        """The results of a program, at placements; None where it has no code for it."""

    def call(
        self, closed: ClosedJaxpr, args: Sequence[Any], places: Any = None, donated: Donated = NONE
    ) -> list[Any]:
        flags = () if donated.refs else donated.flags
        found = self._checked(closed, args, places, not donated.refs, flags)
        return host().call(closed, args, places) if found is None else found

    def evaluate(
        self, primitive: Any, args: Sequence[Any], params: dict[str, Any], places: Any = None
    ) -> Any:
        closed = programs.alone(primitive, [typeof(x) for x in args], params)
        check_execution(params.get("name", primitive.name))
        found = None
        if closed is not None:
            found = self._checked(closed, args, places, primitive.callee(params) is not None)
        if found is None:
            return host().evaluate(primitive, args, params, places)
        return found if primitive.multiple_results else found[0]

    def most_held(self) -> int:
        """Bytes of arguments that a call may hold until its checks are looked at."""
        return MAX_HELD

    def small_result(self, x: ArrayImpl) -> Callable[[], np.ndarray] | None:
        """A small array on its way to the host, as what waits for it; None where each call is to
        wait for its results."""
        return None

    def _checked(
        self, closed: ClosedJaxpr, args: Any, places: Any, may_wait: bool, donated: Any = ()
    ) -> list[Any] | None:
        """What ``run`` gives, of a program that also gives the number of the first check that
        failed if checks are asked for.

        Nothing is donated then: the arguments are needed to find the operation. If it
        ``may_wait``, that number is looked at later.
        """
        asked = checking.asked()
        if asked is None:
            return self.run(closed, args, places, donated)
        telling, culprit = instrument.telling(closed, asked, True)
        if culprit is None:
            return self.run(closed, args, places)
        places = places and (*places, _beside(places[0]))
        found = self.run(telling, args, places)
        if found is None:
            return None
        *results, failure = found
        checks = _Checks(self, closed, culprit, places)
        may_wait = may_wait and checking.may_wait()
        kept = _kept([*checks.consts, *args], self.most_held()) if may_wait else None
        if kept is None or not checks.look_later(failure, kept, args):
            checks.look_now(failure, [*checks.consts, *args])
        return results

    def watched(self, pattern: CallPattern, places: Any, asked: Any) -> Any:
        """A pattern for the program that also gives the number of the first check that failed, and
        its arguments back, for native code to answer; its results are the first of these, once the
        rest is kept to be looked at. Placements, too; None where Python has to make such calls."""
        if pattern.has_references or pattern.given is not None or pattern.closed is None:
            return None
        if any(type(x) is not ArrayImpl for x in pattern.leaves):
            return None
        if sum(_bytes(x) for x in pattern.leaves) > self.most_held():
            return None
        program, culprit = instrument.passing(pattern.closed, asked)
        if culprit is None:
            return pattern._replace(donated=()), places
        places = (*places, _beside(places[0]))
        checks = _Checks(self, pattern.closed, culprit, places)
        children = (pattern.out_tree.node, *[LEAF] * (1 + len(pattern.leaves)))
        tree = treedef_of(Node(_FINISHED, checks, children))
        own = [x._type.placement for x in pattern.leaves]
        found = pattern._replace(closed=program, out_tree=tree, donated=())
        return found, (*places, *own)


class _Checks:
    """The checks of a program: what is done with the number of the first one that has failed."""

    def __init__(
        self, client: DeviceClient, closed: ClosedJaxpr, culprit: Any, places: Any
    ) -> None:
        self.client, self.closed, self.culprit, self.places = client, closed, culprit, places
        self.consts = instrument.flat(closed).consts

    def look_now(self, failure: Any, given: Sequence[Any]) -> None:
        checking.settle()
        error = self._error(np.asarray(failure), given)
        if error is not None:
            raise error

    def look_later(self, failure: Any, given: Sequence[Any], args: Sequence[Any] = ()) -> bool:
        """Have the number looked at later; False if that can't be. Arguments that were donated may
        be used on if the call has failed."""
        arrives = self.client.small_result(failure)
        if arrives is None:
            return False

        def look() -> None:
            error = self._error(arrives(), given)
            if error is not None:
                for x, held in zip(args, given[len(self.consts) :], strict=False):
                    if type(x) is ArrayImpl and x._owner is None:
                        x._owner = held._owner
                raise error

        checking.later(look)
        return True

    def finish(self, children: Sequence[Any]) -> Any:
        """The results of a call that native code has answered."""
        results, failure, *args = children
        given = [*self.consts, *args]
        if not checking.may_wait() or not self.look_later(failure, given):
            self.look_now(failure, given)
        return results

    def _error(self, numbers: np.ndarray, given: Sequence[Any]) -> Exception | None:
        if not numbers.reshape(-1)[0]:
            return None
        culprit = self.culprit
        if not culprit.is_whole:
            numbers, culprit = self._first(numbers, given)
        jaxpr = instrument.flat(self.closed).jaxpr
        avals = [v.aval for v in [*jaxpr.constvars, *jaxpr.invars]]
        values = [to_numpy(x, a) for x, a in zip(given, avals, strict=True)]
        return culprit.error([numbers, *values])  # type: ignore[no-any-return]

    def _first(self, numbers: np.ndarray, given: Sequence[Any]) -> tuple[np.ndarray, Any]:
        """What the program with all checks says of arguments for which one with few has failed;
        what that one has said where there is no memory for more, or rounding differs."""
        telling, culprit = instrument.telling(self.closed, self.culprit.kinds)
        try:
            found = self.client.run(telling, given[len(self.consts) :], self.places)
            first = None if found is None else np.asarray(found[-1])
        except errors.JaxRuntimeError:
            first = None
        if first is None or not first.reshape(-1)[0]:
            return numbers, self.culprit
        return first, culprit


def _opened(finished: Any) -> Any:
    raise TypeError("results of a checked call cannot be flattened as a whole")


# The vertex above the results of a call with checks: what builds trees asks it for the results.
_FINISHED = Kind(_Checks, "custom", _opened, lambda checks, xs: checks.finish(xs), None)

# Bytes of arguments that a call holds until its checks are looked at, unless a device has more for
# that, and of NumPy arrays that are copied for it.
MAX_HELD, MAX_COPIED = 1 << 28, 1 << 16


def _kept(args: Any, most: int) -> list[Any] | None:
    """Arguments that stay what they are until they are looked at; None where that takes long, or
    more bytes of arrays than ``most``."""
    kept, held = [], 0
    for x in args:
        if type(x) is ArrayImpl:
            held += _bytes(x)
            x = x._alias()
        elif type(x) is np.ndarray:
            if x.nbytes > MAX_COPIED:
                return None
            x = x.copy()
        kept.append(x)
    return kept if held <= most else None


def _bytes(x: ArrayImpl) -> int:
    return x.aval.size * storage_dtype(x.aval.dtype).itemsize  # type: ignore[no-any-return]


def _beside(place: Placement) -> Placement:
    """Where a small result belongs whose program has others at a place: on all devices."""
    sharding = place.sharding
    if isinstance(sharding, meshes.NamedSharding):
        whole = meshes.NamedSharding(sharding.mesh, meshes.PartitionSpec())
        return placement(whole, place.committed)
    return place
