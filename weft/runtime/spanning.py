"""Arrays over several processes: what each has of them, and programs that all of them run.

Every process has its own parts in memory, each once. A program on such arrays is made for one
process, on these parts, with messages to the others in it, and is compiled as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base import errors, observing
from weft.core import processes
from weft.core.avals import ShapedArray
from weft.core.caches import per_program
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr, with_programs
from weft.core.sharding import NamedSharding, PartitionSpec, axes_of
from weft.core.trace import typeof
from weft.division.mesh_layout import Key, local_aval, parts_of
from weft.dtypes import canonicalize_dtype
from weft.runtime.array import ArrayImpl, spanning
from weft.runtime.client import Client, host
from weft.runtime.compiling import EXACT
from weft.runtime.places import ArrayType, Placement, array_type, described, placement

# (program, shardings of its arguments) -> the program of one process, and how its arguments and
# results are divided; filled by ``weft.distributed``
partitioner: Callable[..., Any]


def set_partitioner(function: Callable[..., Any]) -> None:
    """Say how programs are divided that are no ``shard_map`` already."""
    global partitioner
    partitioner = function


# --- memory ---------------------------------------------------------------------------------------


def put(x: Any, where: Placement) -> ArrayImpl:
    """An array over several processes, from a value that all of them have, or from another one."""
    sharding, aval = where.sharding, typeof(x)
    aval = ShapedArray(aval.shape, aval.dtype, aval.weak_type)
    if type(x) is ArrayImpl and x._type.placement.spans:
        if x.sharding.is_equivalent_to(sharding, x.ndim):
            return x._at(where)
        return spanning(_moved(x, sharding), aval, where)
    value = x._value if type(x) is ArrayImpl else np.asarray(x, storage_dtype(aval.dtype))
    return spanning(rows_of(value, sharding), aval, where)


def rows_of(value: np.ndarray, sharding: Any) -> np.ndarray:
    """The parts of a value that this process has."""
    parts = parts_of(sharding, value.shape)
    made = np.empty((len(parts), *sharding.shard_shape(value.shape)), value.dtype)
    for i, key in enumerate(parts):
        made[i, ...] = value[tuple(slice(*ends) for ends in key)]
    return made


def sizes_of_parts(sharding: Any, rank: int) -> list[int]:
    """The shape of an array with one element for each part, which tells where parts are."""
    sizes = [prod(sharding.mesh.shape[name] for name in axes_of(part)) for part in sharding.spec]
    return sizes + [1] * (rank - len(sizes))


def _moved(x: ArrayImpl, sharding: Any) -> np.ndarray:
    """The parts of another division of an array, sent by whoever has them."""
    own, shape = processes.index, x.shape
    dtype = storage_dtype(x.aval.dtype)
    holders: dict[Key, list[int]] = {}
    ranks = sorted({d.process_index for d in x.sharding.device_set | sharding.device_set})
    for rank in ranks:
        for key in parts_of(x.sharding, shape, rank):
            holders.setdefault(key, []).append(rank)
    wanted = {rank: list(parts_of(sharding, shape, rank)) for rank in ranks}

    def pieces(sender: int, receiver: int) -> list[tuple[int, Key, Key]]:
        """Parts of the receiver by number, the parts they come from, and what both share."""
        found = []
        for number, target in enumerate(wanted[receiver]):
            for key, having in holders.items():
                chosen = receiver if receiver in having else having[receiver % len(having)]
                both = _shared(key, target) if chosen == sender else None
                if both is not None:
                    found.append((number, key, both))
        return found

    held = x._rows()
    rows = {key: held[i, ...] for i, key in enumerate(parts_of(x.sharding, shape))}
    sends = {
        rank: [rows[key][_inside(both, key)] for _, key, both in pieces(own, rank)]
        for rank in ranks
    }
    here = {rank: pieces(rank, own) for rank in ranks}
    sizes = {
        rank: sum(int(np.prod([b - a for a, b in both])) for _, _, both in each)
        for rank, each in here.items()
    }
    blobs = {
        rank: np.concatenate([p.reshape(-1) for p in parts]) if parts else np.empty(0, dtype)
        for rank, parts in sends.items()
    }
    arrived = processes.transport.swap(
        {r: blob.view(np.uint8) for r, blob in blobs.items()},
        {r: n * dtype.itemsize for r, n in sizes.items()},
        f"a move of {x.aval.str_short(short_dtypes=True)} from {x.sharding} to {sharding}",
    )
    made = np.empty((len(wanted[own]), *sharding.shard_shape(shape)), dtype)
    for rank, each in here.items():
        data, at = arrived[rank].view(dtype), 0
        for number, _, both in each:
            inside: Any = (number, *_inside(both, wanted[own][number]), ...)
            part = made[inside]
            part[...] = data[at : at + part.size].reshape(part.shape)
            at += part.size
    return made


def _shared(a: Key, b: Key) -> Key | None:
    both = tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in zip(a, b, strict=True))
    return both if all(low < high for low, high in both) else None


def _inside(key: Key, part: Key) -> tuple[slice, ...]:
    """Where a range of an array is in a part of it."""
    return tuple(slice(a - p, b - p) for (a, b), (p, _) in zip(key, part, strict=True))


def gathered(x: ArrayImpl) -> np.ndarray:
    """All values of an array over several processes, in each of them."""
    if not x.is_fully_replicated:
        if observing.watches_transfers():
            observing.copied("gathered", x.aval.str_short(), x.nbytes, "process_allgather", True)
        if not isinstance(x.sharding, NamedSharding):
            raise ValueError(f"{x.sharding} names no mesh")
        x = put(x, placement(NamedSharding(x.sharding.mesh, PartitionSpec()), True))
    return x._value


def of_process(data: np.ndarray, sharding: Any, global_shape: Any = None) -> ArrayImpl:
    """An array over several processes, of the data of each; as long as these together."""
    if len(sharding.spec) > data.ndim:
        raise ValueError(
            f"{sharding.spec} has entries for {len(sharding.spec)} dimensions, but the local data "
            f"has shape {data.shape}"
        )
    sizes = sizes_of_parts(sharding, data.ndim)
    parts = list(parts_of(sharding, sizes))
    held = [sorted({part[i][0] for part in parts}) for i in range(data.ndim)]
    rows = zip(data.shape, sizes, held, strict=True)
    implied = tuple(n * (size // len(own)) for n, size, own in rows)
    shape = implied
    if global_shape is not None:
        both = zip(global_shape, implied, strict=True)
        shape = tuple(m if n is None else n for n, m in both)
    if shape != implied and shape != data.shape:
        raise ValueError(
            f"this process has data of shape {data.shape}, for an array of shape {shape}; with "
            f"{sharding.spec} it would need the shape {implied}"
        )
    dtype = canonicalize_dtype(data.dtype)
    if shape == data.shape:
        made = rows_of(data.astype(dtype, copy=False), sharding)
    else:
        made = np.empty((len(parts), *sharding.shard_shape(shape)), dtype)
        for i, at in enumerate(_places_here(sharding, shape)):
            made[i, ...] = data[at]
    return spanning(made, ShapedArray(shape, dtype), placement(sharding, True))


def part_of_process(x: ArrayImpl) -> np.ndarray:
    """What this process has of an array over several, as one array."""
    where = _places_here(x.sharding, x.shape)
    shape = [max(at[i].stop for at in where) for i in range(x.ndim)]
    rows, made = x._rows(), np.empty(shape, storage_dtype(x.aval.dtype))
    for i, at in enumerate(where):
        made[at] = rows[i, ...]
    return made


def _places_here(sharding: Any, shape: Sequence[int]) -> list[tuple[slice, ...]]:
    """Where the parts that this process has of an array are in what it has, taken as one array."""
    keys, part = list(parts_of(sharding, shape)), sharding.shard_shape(tuple(shape))
    begins = [sorted({key[i][0] for key in keys}) for i in range(len(shape))]
    found = []
    for key in keys:
        at = [own.index(ends[0]) * n for own, ends, n in zip(begins, key, part, strict=True)]
        found.append(tuple(slice(a, a + n) for a, n in zip(at, part, strict=True)))
    return found


def local(x: ArrayImpl) -> ArrayImpl:
    """The memory of this process as an array of its own type."""
    made = x._alias()
    made._view = None
    made.aval = local_aval(x.aval, x.sharding)
    made._type = array_type(made.aval, x._type.placement.client.home())
    return made


# --- programs -------------------------------------------------------------------------------------


class Form:
    """A program for this process: what it computes, where arguments belong, types of results."""

    def __init__(self, program: ClosedJaxpr, ins: Sequence[Any], types: list[ArrayType]) -> None:
        self.program = program
        self.ins = [placement(s, True) for s in ins]
        self.types = types
        self.checked = False

    @property
    def client(self) -> Client:
        """Who runs the program in this process."""
        places = [*self.ins, *(t.placement for t in self.types)]
        return places[0].client if places else host()

    def memory(self, args: Sequence[Any]) -> list[ArrayImpl]:
        """The arguments where they belong, as memory of this process."""
        return [local(put(x, where)) for x, where in zip(args, self.ins, strict=True)]

    def results(self, outs: Sequence[Any]) -> list[ArrayImpl]:
        """What this process has computed, as arrays over all of them."""
        found, home = [], self.client.home()
        for y, kind in zip(outs, self.types, strict=True):
            made = y._at(home)
            made.aval, made._type, made._view = kind.aval, kind, None
            found.append(made)
        return found


def spans(args: Sequence[Any], said: Any) -> bool:
    """Whether a computation is one of several processes together, which weft divides."""
    for x in args:
        if type(x) is ArrayImpl and x._type.placement.spans:
            return not x._type.placement.joined
    return said is not None and said.spans and not said.joined


def _check_own(args: Sequence[Any], said: Any, name: str) -> None:
    """Raise where this process has no device of a mesh."""
    places = [x._type.placement for x in args if type(x) is ArrayImpl and x._type.placement.spans]
    for where in [*places, *([said] if said is not None and said.spans else [])]:
        if not where.sharding.addressable_devices:
            raise ValueError(
                f"{name} runs only on devices of other processes, {described(where)}; process"
                f" {processes.index} has none of them and must not call it"
            )


def form_of(closed: ClosedJaxpr, args: Sequence[Any], name: str, said: Any = None) -> Form:
    """The program of this process for arguments like these; ``said`` is what it prescribes."""
    _check_own(args, said, name)
    for i, x in enumerate(args):
        if type(x) is ArrayImpl and x.committed and not x._type.placement.spans:
            raise ValueError(
                errors.located(
                    f"{name} got arrays that are committed to different devices: operand {i},"
                    f" {x.aval.str_short()}, on {described(x._type.placement)} of this process, and"
                    " others on those of several",
                    "Move it first: weft.device_put(x, y.sharding).",
                )
            )
    given = tuple(
        x.sharding if type(x) is ArrayImpl and x._type.placement.spans else None for x in args
    )
    found = _form(closed, given)
    if not found.checked:
        _check(closed, found, name)
    return found


@per_program
def _form(closed: ClosedJaxpr, given: tuple[Any, ...]) -> Form:
    program, ins, outs = _written(closed) or partitioner(closed, given)
    pairs = zip(closed.out_avals, outs, strict=True)
    return Form(program, ins, [array_type(a, placement(s, True)) for a, s in pairs])


def _check(closed: ClosedJaxpr, form: Form, name: str) -> None:
    """Raise unless all processes are about to run the same program; mark its messages."""
    places = [*form.ins, *(t.placement for t in form.types)]
    ranks = sorted({d.process_index for p in places for d in p.sharding.device_set})
    specs = [f"{p.sharding}" for p in places]
    # without colours, which only processes on a terminal have
    text = "\n".join([closed.pretty_print(use_color=False), *specs])
    number = processes.transport.begin_program(name, tuple(ranks), text)
    types = ", ".join(a.str_short(short_dtypes=True) for a in closed.in_avals)
    # all processes run the same code
    form.program = EXACT.give(_numbered(form.program, number, f"{name}({types})"))
    form.checked = True


def _numbered(closed: ClosedJaxpr, number: int, name: str) -> ClosedJaxpr:
    """A program whose messages know its number and name."""
    eqns = []
    for eqn in closed.jaxpr.eqns:
        params = with_programs(eqn.params, lambda inner: _numbered(inner, number, name))
        if "site" in params:
            params = params | {"site": params["site"].of(number, name)}
        eqns.append(eqn.replace(params=params))
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)


def _written(closed: ClosedJaxpr) -> Any:
    """The program of one process where it is a single ``shard_map``; None where more is needed."""
    if len(closed.eqns) != 1:
        return None
    (eqn,) = closed.eqns
    same = eqn.invars == closed.jaxpr.invars and eqn.outvars == closed.jaxpr.outvars
    if not same or closed.consts:
        return None
    if eqn.primitive.per_process is not None:
        return eqn.primitive.per_process(eqn.params)
    callee = eqn.primitive.callee(eqn.params)
    return None if callee is None else _written(callee)
