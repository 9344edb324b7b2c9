"""Evaluation of a bound primitive when nothing is being traced."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from weft.base import errors, events, knobs, source
from weft.base.lazy import Late
from weft.core import processes
from weft.core import sharding as meshes
from weft.core.avals import ShapedArray
from weft.core.interpret import check_floats, run_primitive
from weft.core.jaxpr import ClosedJaxpr
from weft.core.plain import plain
from weft.core.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding
from weft.core.staging import stage
from weft.core.trace import state, typeof
from weft.runtime import observed, policy, registry
from weft.runtime.array import ArrayImpl, as_placed, as_sum, box
from weft.runtime.devices import Device
from weft.runtime.places import (
    HOME,
    Incompatible,
    Placement,
    array_type,
    common,
    default_placement,
    described,
    on_device,
    placement,
)

# loaded when a knob asks for it
key_reuse = Late("weft.core.key_reuse")
# needed where types carry shardings
explicit = Late("weft.core.explicit")
marks = Late("weft.core.marks")
# loaded when single operations become programs
programs = Late("weft.runtime.programs")
# loaded when a knob asks for another backend
by_numpy = Late("weft.runtime.plain")
# loaded when arrays are divided over devices
spread = Late("weft.runtime.spread")
# loaded when arrays are divided over processes
across = Late("weft.runtime.spanning")


def to_numpy(x: Any, aval: Any) -> Any:
    """The NumPy form of an operand, at the dtype of its abstract value."""
    if type(x) is ArrayImpl:
        return x._value
    if type(aval) is not ShapedArray:
        if aval.is_ref:
            raise errors.reference_given("this function", aval)
        return x
    return np.asarray(x, aval.dtype)


def load_compiler(own: bool = False) -> None:
    """Have the compiler loaded, for a function that will need it, and LLVM beside it; for one of
    weft's own, which may never be called, not what most programs of users need besides."""
    if knobs.thread.backend == "native":
        registry.dispatch.begin()
        registry.native.prepare()
        if not own:
            registry.native.load_products()


def prepare() -> None:
    """Begin with what a program will need that is to be compiled, while it is being traced."""
    if knobs.thread.backend == "native":
        registry.native.prepare()


def check_execution(name: str) -> None:
    """Raise RuntimeError under ``no_execution``."""
    if knobs.thread.no_execution:
        raise RuntimeError(
            f"{name} would be computed, which no_execution forbids; trace it instead, with"
            " eval_shape, make_jaxpr or lower"
        )


def _places(name: str, args: Any, program: Any, avals: Any = None) -> Any:
    """The placements of the results of a computation; None where they are where most arrays are.

    ``program`` gives a closed program of what is computed, if it is asked.
    """
    for x in args:
        if type(x) is ArrayImpl and x._type.placement is not HOME:
            break
    else:
        thread = knobs.thread
        if thread.default_device is None and thread.mesh is None and not says_where(program()):
            return None
    where = _where(name, args, program())
    if where is HOME:
        # what is elsewhere is brought here
        away = any(map(_is_away, args))
        return (where,) * _count(program, avals) if away else None
    if where.is_spread or isinstance(where.sharding, NamedSharding):
        return spread.results(program(), where, args)
    return (where,) * _count(program, avals)


def _where(name: str, args: Any, program: Any) -> Placement:
    """Where a program runs, by its arguments and by what it says itself."""
    given = [x._type.placement if type(x) is ArrayImpl else HOME for x in args]
    said = says_where(program)
    try:
        where = common([*given, said] if said else given)
    except Incompatible as error:
        raise _apart(name, args, error) from None
    if where is HOME or not isinstance(where.sharding, NamedSharding):
        return where
    return _on_mesh_said(program, _on_current_mesh(where))


def _observed(name: str, primitive: Any, args: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a call, with a program that says how values that it shows are divided."""
    closed = primitive.callee(params)
    if closed is None or not observed.looks(closed):
        return params
    where = _where(name, args, closed)
    if where is HOME or not isinstance(where.sharding, NamedSharding):
        return params
    return {**params, "jaxpr": observed.observed(closed, where.sharding.mesh, args)}


def _count(program: Any, avals: Any) -> int:
    return len(program().out_avals) if avals is None else len(avals)


def _client(args: Any, places: Any) -> Any:
    """Who runs a computation on arrays, if some of them are not in the host's memory, or results
    are not to be; None for the host."""
    if places is None:
        return None
    if places:
        return places[0].client
    found = [x._type.placement.client for x in args if type(x) is ArrayImpl]
    return next((c for c in found if c is not None), None)


def client_of(closed: Any, args: Any) -> Any:
    """Who runs a program on arguments, if it isn't the host; None if it is."""
    return _client(args, _places("a program", args, lambda: closed))


def _brought(args: Any) -> list[Any]:
    """Operands with copies in the host's memory of those that are elsewhere."""
    return [
        x._at(HOME) if type(x) is ArrayImpl and x._type.placement.client is not None else x
        for x in args
    ]


def _on_mesh_said(closed: Any, where: Placement) -> Placement:
    """A placement on the mesh without devices that a program speaks of, of the same devices."""
    said = closed._memo.get("says_where")
    if not isinstance(said, NamedSharding) or not said.mesh.are_all_axes_auto:
        return where
    own, mesh = where.sharding, said.mesh
    if not isinstance(own, NamedSharding) or own.mesh.shape == mesh.shape:
        return where
    devices = own._device_assignment
    if len(devices) != mesh.size:
        return where
    grid = np.array(devices, dtype=object).reshape(mesh.axis_sizes)
    there = NamedSharding(Mesh(grid, mesh.axis_names, mesh.axis_types), PartitionSpec())
    return placement(there, where.committed)


def _on_current_mesh(where: Placement) -> Placement:
    """A placement on the mesh that is set, where that has the same devices."""
    current = knobs.thread.mesh
    if current is None or current[0] is None or not isinstance(where.sharding, NamedSharding):
        return where
    concrete, abstract = current
    if concrete.axis_names != where.sharding.mesh.axis_names:
        return where
    if concrete.axis_types != abstract.axis_types and concrete.axis_names == abstract.axis_names:
        concrete = concrete.update(axis_types=abstract.axis_types)
    same = tuple(concrete.devices.flat) == where.sharding._device_assignment
    if concrete == where.sharding.mesh or not same:
        return where
    return placement(NamedSharding(concrete, where.sharding.spec), True)


def _apart(name: str, args: Any, error: Incompatible) -> ValueError:
    """The error for arrays that are committed to different devices."""
    found = {}
    for i, x in enumerate(args):
        if type(x) is ArrayImpl and x._type.placement in (error.first, error.second):
            found.setdefault(x._type.placement, f"operand {i}, {x.aval.str_short()}")
    both = (error.first, error.second)
    parts = [f"{found.get(p, 'what is computed with')}, on {described(p)}" for p in both]
    message = f"{name} got arrays that are committed to different devices: {'; '.join(parts)}"
    advice = "Move one of them first: weft.device_put(x, y.sharding)."
    return ValueError(errors.located(message, advice))


def _put(results: list[Any], places: Any) -> list[Any]:
    """New arrays, marked with their placements, or moved there."""
    if places and places[0].client is not None:
        found = zip(results, places, strict=True)
        return [x._at(where) if type(x) is ArrayImpl else x for x, where in found]
    for x, where in zip(results, places, strict=True):
        if type(x) is ArrayImpl:
            x._type = array_type(x.aval, where)
            x.aval = x._type.aval
    return results


def evaluate(primitive: Any, args: Any, params: dict[str, Any]) -> Any:
    """Compute a primitive and box the results; keys are watched if that is asked for."""
    if meshes.sums_left:
        found = _with_sums(primitive, args, params)
        if found is not None:
            return found if primitive.multiple_results else found[0]
    for x in args:
        if type(x) is ArrayImpl and x._type.placement is not HOME:
            return _evaluate_there(primitive, args, params)
    thread = knobs.thread
    if (
        thread.default_device is not None
        or thread.mesh is not None
        or primitive.shardings is not None
    ):
        return _evaluate_there(primitive, args, params)
    callee = primitive.callee(params)
    if callee is not None and says_where(callee):
        return _evaluate_there(primitive, args, params)
    try:
        return _evaluate_here(primitive, args, params)
    except errors.InconclusiveDimensionOperation:
        raise errors.unknown_sizes(str(params.get("name", primitive))) from None


def _with_sums(primitive: Any, args: Any, params: dict[str, Any]) -> list[Any] | None:
    """The results of an operation on sums that are left to be made; None where there are none."""
    closed = primitive.callee(params)
    if closed is None:
        said = [params.get(key) for key in ("dst_sharding", "out_sharding", "sharding")]
        given = [*[getattr(x, "sharding", None) for x in args], *said]
        if not state.sums and not any(map(_is_sum, given)):
            return None
        several = primitive.multiple_results
        bound = lambda *xs: primitive.bind(*xs, **params)
        avals = [typeof(x) for x in args]
        closed = stage(lambda *xs: bound(*xs) if several else [bound(*xs)], avals)
    if not registry.has_sums(closed):
        return None
    found = call_on_parts(closed, args)
    if primitive.name != "shard_map":
        return found
    there = [placement(s, True) for s in primitive.shardings(params) if s is not None]
    if len(there) != len(found):
        return found
    return [as_placed(y, where) for y, where in zip(found, there, strict=True)]


def _is_sum(sharding: Any) -> bool:
    return isinstance(sharding, NamedSharding) and bool(sharding.spec.unreduced)


def call_on_parts(closed: Any, args: Any) -> list[Any]:
    """The results of a program that leaves sums to be made, from their parts."""
    program = registry.on_parts(closed)
    given = [x._parts() if type(x) is ArrayImpl and x._is_sum else x for x in args]
    found = call_program(program, given, program.in_avals)
    made = []
    for i, (y, a) in enumerate(zip(found, closed.out_avals, strict=True)):
        y = as_sum(y, a) if marks.axes_of_sum(a) else y
        there = getattr(y, "sharding", None)
        if type(y) is ArrayImpl and marks.reduced(a) and isinstance(there, NamedSharding):
            spec = there.spec.update(reduced=marks.reduced(a))
            y = as_placed(y, placement(there.with_spec(spec), True))
        if isinstance(there, NamedSharding) and there.num_devices > 1:
            spec = spread.kept(closed, there.mesh).get(i)
            y = y if spec is None else as_placed(y, placement(there.with_spec(spec), True))
        made.append(y)
    return made


def leaves_sums(closed: Any) -> bool:
    """Whether a program has sums that are left to be made: it is not called by native code."""
    return meshes.sums_left and registry.has_sums(closed)


def says_where(closed: Any) -> Any:
    """The placement that a program prescribes for some of its values; None if it says nothing."""
    found = closed._memo.get("says_where", "")
    if found == "":
        found = closed._memo["says_where"] = _said(closed)
    if found is not None and not isinstance(found, Placement):  # over a mesh without devices
        current = knobs.thread.mesh
        if current is None or current[0] is None or current[0].shape != found.mesh.shape:
            return None
        return placement(NamedSharding(current[0], found.spec), True)
    return found


def _said(closed: Any) -> Any:
    every = list(_prescribed(closed))
    concrete = [pair for pair in every if not is_abstract(pair[0])]
    if not concrete:
        return every[0][0] if every else None
    first, one = concrete[0]
    for sharding, eqn in concrete:
        if sharding._device_assignment != first._device_assignment:
            raise _conflict(first, one, sharding, eqn)
    return placement(first, True)


def is_abstract(sharding: Any) -> bool:
    """Whether a sharding is over a mesh without devices."""
    return isinstance(getattr(sharding, "mesh", None), AbstractMesh)


def _conflict(first: Any, one: Any, second: Any, other: Any) -> ValueError:
    """The error for a program that is to run on different devices."""
    pairs = [(first, one), (second, other)]
    places = [described(placement(s, True)) for s, _ in pairs]
    parts = [f"{eqn.primitive.name} on {p}" for (_, eqn), p in zip(pairs, places, strict=True)]
    message = f"one program cannot run on different devices: {' and '.join(parts)}"
    advice = "Have the shardings of arguments, results and constraints over the same devices."
    return ValueError(errors.located(message, advice))


def _prescribed(closed: Any) -> Any:
    """The shardings that equations of a program prescribe, with those, or its types."""
    for eqn in closed.eqns:
        rule = eqn.primitive.shardings
        if rule is not None:
            yield from [(s, eqn) for s in rule(eqn.params) if s is not None]
            continue
        for part in [x for p in eqn.params.values() for x in (p if type(p) is tuple else (p,))]:
            if type(part) is ClosedJaxpr:
                yield from _prescribed(part)
    divided = [getattr(a, "divided", None) for a in closed.out_avals]
    yield from [(s, None) for s in divided if s is not None]


def _across(closed: Any, args: Any, name: str) -> Any:
    """The program of this process, where a computation is one of several; None where it isn't."""
    said = says_where(closed)
    if processes.count == 1 or not across.spans(args, said):
        return None
    return across.form_of(closed, args, name, said)


def _run_across(form: Any, args: Any, name: str, donated: Any = ()) -> list[Any]:
    """The results of a program that several processes run together."""
    given, program, client = form.memory(args), form.program, form.client
    if client is not None:
        places = (client.home(),) * len(program.out_avals)
        found = _call_donating_there(client, program, args, given, places, donated)
        if found is not None:
            return form.results(found)
        given = _brought(given)
    if knobs.thread.backend == "native" and not _checks():
        return form.results(registry.native.call_program(program, given, program.in_avals))
    backend = knobs.thread.backend
    backend = backend if backend in registry.PLAIN and not _checks() else "reference"
    make = registry.PLAIN[backend]
    found = by_numpy.call_plain(backend, make, program, given, program.in_avals)
    if found is None:
        raise NotImplementedError(f"{name} has values that are no arrays, over several processes")
    return form.results(found)


def _call_donating_there(
    client: Any, program: Any, args: Any, given: Any, places: Any, donated: Any
) -> list[Any] | None:
    """The results of a program on memory of a process, which donated arguments give up."""
    lent = [
        (x, own)
        for x, own, gone in zip(args, given, donated, strict=False)
        if gone and type(x) is ArrayImpl and own._owner is x._owner
    ]
    for x, _ in lent:
        x.delete()
    try:
        return client.call(program, given, places, tuple(donated))
    finally:
        for x, own in lent:  # those whose memory was not taken
            x._owner = own._owner


def _evaluate_there(primitive: Any, args: Any, params: dict[str, Any]) -> Any:
    """Compute a primitive on arrays of which some are not where most are."""
    name = params.get("name", primitive.name)
    params = _observed(name, primitive, args, params)
    avals = [typeof(x) for x in args]
    try:
        found = primitive.shape(*avals, **params)
    except Exception as error:
        errors.locate(error, state.source)
        raise
    several = primitive.multiple_results
    made: list[Any] = []

    def program() -> Any:
        callee = primitive.callee(params)
        if callee is not None and primitive.shardings is None:
            return callee
        if not made:
            made.append(alone())
        return made[0]

    def alone() -> Any:
        bound = lambda *xs: primitive.bind(*xs, **params)
        return stage(lambda *xs: bound(*xs) if several else [bound(*xs)], avals)

    form = _across(program(), args, name) if processes.count > 1 else None
    if form is not None:
        results = _run_across(form, args, name)
        return results if several else results[0]
    if primitive.name == "device_put" and all(type(a) is ShapedArray for a in avals):
        return _moved(primitive, args, params)
    places = None
    if primitive.name == "reshard":
        places = _resharded(params["dst_sharding"], args)
    if places is None:
        places = _places(name, args, program, found if several else [found])
        if places and primitive.name == "shard_map":
            if params["manual_axes"] == frozenset(params["mesh"].axis_names):
                places = _as_written(places, primitive.shardings(params))
    client = _client(args, places)
    if client is not None and not _watched() and not state.axis_env:
        closed = _alone(primitive, avals, params, program)
        check_execution(name)
        made = None if closed is None else client.call(closed, args, places)
        if made is not None:
            return made if several else made[0]
    results = _evaluate_here(primitive, _brought(args), params)
    if places is None:
        return results
    return _put(results, places) if several else _put([results], places)[0]


def _moved(primitive: Any, args: Any, params: dict[str, Any]) -> list[Any]:
    """Arrays at the places of ``device_put``, wherever they are."""
    results = _evaluate_here(primitive, _brought(args), params) if _watched() else args
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


def _alone(primitive: Any, avals: Any, params: dict[str, Any], program: Any) -> Any:
    """A primitive as a program, kept for operands like these; None where it isn't one."""
    if primitive.callee(params) is not None:
        return program()
    if any(type(a) is not ShapedArray for a in avals):
        return None
    if any(type(p) is ClosedJaxpr for p in params.values()):
        return programs.of_loop(primitive, avals, params)
    return programs.of_primitive(primitive, avals, params)


def _as_written(places: Any, shardings: Any) -> Any:
    """Placements with the specs that were given for results, word for word."""
    found = zip(places, shardings, strict=True)
    return tuple([p if s is None else placement(s, p.committed) for p, s in found])


def _resharded(sharding: Any, args: Any) -> Any:
    """The placement of an array that is moved; None where its mesh names no devices."""
    if isinstance(sharding.mesh, AbstractMesh):
        current, own = knobs.thread.mesh, getattr(args[0], "sharding", None)
        known = [] if current is None or current[0] is None else [current[0]]
        known += [own.mesh] if isinstance(own, NamedSharding) else []
        mesh = next((m for m in known if m.shape == sharding.mesh.shape), None)
        if mesh is None:
            return None
        sharding = NamedSharding(mesh.update(axis_types=sharding.mesh.axis_types), sharding.spec)
    return (placement(sharding, True),)


def _evaluate_here(primitive: Any, args: Any, params: dict[str, Any]) -> Any:
    if events.listener is not None and primitive.callee(params) is None:
        began = events.begin()
        try:
            return _evaluate_checked(primitive, args, params)
        finally:
            where = source.summarize(state.source or source.current())
            events.end(began, "operation", primitive.name, lines=where)
    return _evaluate_checked(primitive, args, params)


def _evaluate_checked(primitive: Any, args: Any, params: dict[str, Any]) -> Any:
    if not knobs.thread.debug_key_reuse:
        return _evaluate(primitive, args, params)
    masks = key_reuse.before(primitive, [typeof(x) for x in args], args, params)
    results = _evaluate(primitive, args, params)
    key_reuse.after(results if primitive.multiple_results else [results], masks)
    return results


def _evaluate(primitive: Any, args: Any, params: dict[str, Any]) -> Any:
    if knobs.thread.no_execution and primitive.name != "device_put":
        check_execution(params.get("name", primitive.name))
    avals = [typeof(x) for x in args]
    if meshes.explicit_ones:
        avals = explicit.plain_avals(avals)
    try:
        out = primitive.shape(*avals, **params)
    except Exception as error:
        errors.locate(error, state.source)
        raise
    if knobs.thread.backend == "native" and not _checks():
        callee = primitive.callee(params)
        if callee is not None:
            return registry.native.call_program(callee, args, avals)
        if not state.axis_env and policy.is_native(primitive, avals, out, params):
            found = registry.native.call_primitive(primitive, args, avals, params)
            if found is not None:
                return found if primitive.multiple_results else found[0]
        if primitive.nodes == "loop" and primitive.rounds(params) is None:
            return _run_while(primitive, args, avals, params)
    if knobs.thread.backend in registry.PLAIN and not _checks():
        callee, name = primitive.callee(params), knobs.thread.backend
        if callee is not None and meshes.explicit_ones:
            callee = plain(callee)
        found = (
            None
            if callee is None
            else by_numpy.call_plain(name, registry.PLAIN[name], callee, args, avals)
        )
        if found is not None:
            return found
    foreign = any(type(x) is np.ndarray for x in args)
    with np.errstate(all="ignore"):
        values = [to_numpy(x, a) for x, a in zip(args, avals, strict=True)]
        result = run_primitive(primitive, out, values, params)
        if knobs.thread.debug_nans or knobs.thread.debug_infs:
            info = state.source or source.current()
            check_floats(primitive, out, values, params, result, info)
    if primitive.multiple_results:
        return [_boxed(v, a, foreign) for v, a in zip(result, out, strict=True)]
    return _boxed(result, out, foreign)


def _run_while(primitive: Any, args: Any, avals: Any, params: dict[str, Any]) -> Any:
    """A loop of unknown length: some rounds by the interpreter, the rest compiled."""
    body, condition = params["body_jaxpr"], params["cond_jaxpr"]
    effects = primitive.eqn_effects(avals, params)
    rounds = None if effects else policy.interpreted_rounds(condition, body)
    if rounds == 0:
        return registry.native.call_once(primitive, args, avals, params)
    values = [to_numpy(x, a) for x, a in zip(args, avals, strict=True)]
    with np.errstate(all="ignore"):
        carry, done = primitive.some_rounds(values, params, rounds)
    boxed = [_boxed(v, a, True) for v, a in zip(carry, body.out_avals, strict=True)]
    if done:
        return boxed
    rest = [*args[: len(args) - len(boxed)], *boxed]
    return registry.native.call_once(primitive, rest, avals, params)


def _checks() -> bool:
    """Whether every result is looked at, which only the interpreter does."""
    return knobs.thread.debug_nans or knobs.thread.debug_infs


def _watched() -> bool:
    """Whether calls must come by Python, to be checked or to have their random keys watched."""
    return _checks() or knobs.thread.debug_key_reuse


def _boxed(value: Any, aval: Any, foreign: bool) -> Any:
    if type(aval) is not ShapedArray:
        return value
    # memory of the caller's own NumPy arrays must not become an array's
    if foreign:
        value = value.copy()
    return box(value, aval)


def remember(
    function: Any,
    call: Any,
    tree: Any,
    leaves: Any,
    closed: Any,
    out_tree: Any,
    donated: tuple[bool, ...] = (),
    refs: Any = ((), ()),
) -> bool:
    """Let native code answer calls like this one; False if it is too early to say.

    ``refs`` are the references that the function closes over, and which of all are written.
    """
    if any(donated) and closed.effects:  # as in ``call_donating``
        return True
    if leaves_sums(closed) or observed.looks(closed):
        return True
    form = _across(closed, leaves, "a program") if processes.count > 1 else None
    if form is not None:
        return _remember_across(function, call, tree, leaves, form, out_tree)
    if knobs.thread.backend == "native" and not _watched() and not state.axis_env:
        places = _places("a program", leaves, lambda: closed)
        rest = (donated, refs, places)
        client = _client(leaves, places)
        if client is not None:
            return client.remember(function, call, tree, leaves, closed, out_tree, *rest)
        if places is not None and any(_is_away(x) for x in leaves):
            return True
        return registry.native.remember(function, call, tree, leaves, closed, out_tree, *rest)
    return True


def _is_away(x: Any) -> bool:
    """Whether an operand is an array in another memory than the host's."""
    return type(x) is ArrayImpl and x._type.placement.client is not None


def is_away(args: Any) -> bool:
    """Whether some operands, or new arrays, are in another memory than the host's."""
    if any(map(_is_away, args)):
        return True
    thread = knobs.thread
    return thread.default_device is not None and default_placement().client is not None


def _remember_across(
    function: Any, call: Any, tree: Any, leaves: Any, form: Any, out_tree: Any
) -> bool:
    """The same for a program of several processes, on arrays that are where it takes them."""
    if form.client is not None or knobs.thread.backend != "native" or _watched() or state.axis_env:
        return True
    if any(type(x) is not ArrayImpl for x in leaves):
        return True
    if any(x._type.placement is not p for x, p in zip(leaves, form.ins, strict=True)):
        return True
    rest = ((), ((), ()), tuple(form.types))
    return registry.native.remember(function, call, tree, leaves, form.program, out_tree, *rest)


def is_restricted() -> bool:
    """Whether a computation must be looked at before it runs."""
    thread = knobs.thread
    if thread.no_execution or thread.default_device is not None or _watched():
        return True
    return bool(state.axis_env) or not registry.dispatch.is_loaded()


def call_instance(instance: Any, leaves: Any) -> list[Any]:
    """The results of an instance of a program in named sizes."""
    return instance.call(
        *[x if type(x) is ArrayImpl else registry.native._settled(x, typeof(x)) for x in leaves]
    )


def remember_instance(
    function: Any, call: Any, tree: Any, leaves: Any, avals: Any, sized: Any
) -> None:
    """Let native code answer calls like this one by an instance."""
    rest = (leaves, avals, sized.instance, sized.out_tree)
    registry.native.entries.add(function, call, tree, *rest)


def remember_operation_instance(function: Any, given: Any, avals: Any, instance: Any) -> None:
    """Let native code answer an operation by an instance."""
    registry.native.entries.add_operation(function, given, {}, avals, instance)


def compile_eagerly(closed: Any) -> bool:
    """Have the code of an eager operation, at the expense of those to come, if memory allows."""
    if leaves_sums(closed):
        return True
    began = perf_counter()
    try:
        registry.native.compile_program(closed)
    except MemoryError:
        return False
    policy.account.charge(began)
    return True


def remember_given(
    function: Any, call: Any, tree: Any, leaves: Any, closed: Any, number: int
) -> bool:
    """Let native code answer calls like this one, which give one of the leaves back."""
    if _watched() or state.axis_env or leaves_sums(closed):
        return True
    return registry.native.remember_given(function, call, tree, leaves, closed, number)


def remember_operation(function: Any, closed: Any, given: Any, options: Any = None) -> bool:
    """Let native code answer an operation, if it is ready to.

    ``given`` says what the arguments of the operation are, ``options`` has those that are named.
    """
    if _watched() or state.axis_env or leaves_sums(closed):
        return False
    operands = [x for kind, value in given for x in operands_of(kind, value)]
    if processes.count > 1 and across.spans(operands, says_where(closed)):
        return True
    places = _places("an operation", operands, lambda: closed)
    client = _client(operands, places)
    if client is not None:
        return client.remember_operation(function, closed, given, options or {}, places)
    if any(map(_is_away, operands)):
        return True
    began = perf_counter()
    try:
        found = registry.native.remember_operation(function, closed, given, options or {}, places)
    except MemoryError:
        return False
    policy.account.charge(began)
    return found


def operands_of(kind: str, value: Any) -> list[Any]:
    """The operands of an argument of an operation, which may be an index and what it holds."""
    if kind == "leaf":
        return [value]
    index = value[0]
    parts = index if type(index) is tuple else (index,)
    return [x for x in parts if type(x) in (int, ArrayImpl, np.ndarray)]


def call_donating(primitive: Any, args: Any, params: dict[str, Any], refs: Any = ()) -> Any:
    """The results of a call, which may be in the memory of donated arguments.

    What references hold is donated too where it will be written; ``refs`` says who else has it.
    """
    check_execution(params.get("name", primitive.name))
    callee = primitive.callee(params)
    if leaves_sums(callee):
        return primitive.bind(*args, **params)
    form = _across(callee, args, params.get("name", "")) if processes.count > 1 else None
    plain_call = knobs.thread.backend != "native" or _watched() or callee.effects
    if form is not None and form.client is not None and not plain_call and not refs:
        return _run_across(form, args, params.get("name", ""), params["donated_invars"])
    if plain_call or form is not None:
        return primitive.bind(*args, **params)
    avals = [typeof(x) for x in args]
    places = _places(params.get("name", primitive.name), args, lambda: callee)
    client = _client(args, places)
    if client is not None:
        if refs:
            return primitive.bind(*args, **params)
        found = client.call(callee, args, places, params["donated_invars"])
        return primitive.bind(*args, **params) if found is None else found
    args = _brought(args)
    results = registry.native.call_donating(callee, args, avals, params["donated_invars"], refs)
    return results if places is None else _put(results, places)


def call_program(closed: Any, leaves: Any, avals: Any) -> list[Any]:
    """The results of a program on arrays and numbers of its types."""
    name = getattr(closed.debug_info, "func_name", "a program")
    check_execution(name)
    if leaves_sums(closed):
        return call_on_parts(closed, leaves)
    form = _across(closed, leaves, name) if processes.count > 1 else None
    if form is not None:
        return _run_across(form, leaves, name)
    places = _places(name, leaves, lambda: closed)
    client = _client(leaves, places)
    if client is not None:
        found = client.call(closed, leaves, places)
        if found is not None:
            return found
    results = registry.native.call_program(closed, _brought(leaves), avals)
    return results if places is None else _put(results, places)


def picks(count: int) -> bool:
    """Whether elements are picked natively among so many."""
    native_ones = knobs.thread.backend == "native" and count >= policy.LARGE_ELEMENTS
    return native_ones and registry.selection.supported()


def picked(test: str, source: np.ndarray, wanted: list[Any]) -> list[np.ndarray] | None:
    """What is wanted of the elements that a test picks, or None where NumPy finds it as soon.

    What that is, ``registry.selection.select`` says.
    """
    return registry.selection.select(test, source, wanted) if picks(source.size) else None


def generalise(closed: Any) -> Any:
    """A program that is not the user's own, to be compiled for arrays of many sizes at once."""
    return registry.native.generalise(closed) if knobs.thread.backend == "native" else closed


def is_shape_generic(closed: Any) -> bool:
    """Whether the code that a program runs serves other sizes too."""
    return any(getattr(made, "generic", False) for made in closed._memo.values())


def native_hits(function: Any) -> int:
    """How often native code has answered calls of a function."""
    return registry.native.entries.hits(function) if hasattr(function, "_entries") else 0
