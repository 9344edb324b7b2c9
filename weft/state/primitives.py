"""What is done to mutable references: make, read, write, add to, take the last value.

A program with references becomes one on values before it is compiled (``transforms.discharge``),
by the rule ``discharge`` that every primitive here has; ``ref`` does the same to NumPy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.base import errors
from weft.base.text import concat, text
from weft.core.ad import Zero, instantiate, zeros
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front, batch_in_place, match_axis
from weft.core.primitive import Primitive
from weft.core.printing import pp_aval, pp_vars
from weft.core.trace import box, state, typeof
from weft.state import reference
from weft.state.indexing import Reshaped, Slice, accumulate, like, read, write
from weft.state.types import (
    AbstractRef,
    AccumEffect,
    InternalMutableArrayEffect,
    ReadEffect,
    Ref,
    WriteEffect,
    another,
    reference_type,
)
from weft.transforms.discharge import Cell
from weft.transforms.jvp import jvp
from weft.transforms.partial_eval import PartialEvalTrace
from weft.transforms.vmap import batch
from weft.tree.functions import tree_flatten, tree_unflatten

_holes = {"transpose": "references are removed before transposition"}


# --- making and ending references -----------------------------------------------------------------


def _own(value: Any) -> Any:
    """A value to keep: an array itself, a copy of a number or of NumPy data, which may change."""
    if type(value) is not np.ndarray and hasattr(value, "aval"):
        return value
    aval = typeof(value)
    return box(np.array(value, aval.dtype), aval)


class NewRef(Primitive):
    """A reference that starts with a value."""

    name = "new_ref"
    makes_ref = True
    effects = frozenset([InternalMutableArrayEffect()])
    holes = _holes

    def shape(self, init: Any, *, memory_space: Any, kind: Any) -> AbstractRef:
        return reference_type(init, memory_space, kind)

    def evaluate(self, args: Any, params: dict[str, Any]) -> Ref:
        (init,) = args
        return Ref(self.shape(typeof(init), **params), _own(init))

    def discharge(self, init: Any, **params: Any) -> Cell:
        return Cell(init)

    ref = discharge

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        """The tangent of what it holds is held by a second reference, from the start."""
        ref = self.bind(*primals, **params)
        aval = typeof(ref).to_tangent_aval()
        if aval.dtype == dtypes.float0 or params["kind"] is not None:
            return ref, Zero(aval)
        tangent = instantiate(tangents[0])
        if isinstance(state.trace, PartialEvalTrace):  # where tangents belong to what is unknown
            return ref, state.trace.emit(self, [tangent], params)
        return ref, self.bind(tangent, **params)

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        return self.bind(at_front(args[0], dims[0], axis.size), **params), 0


class EmptyRef(Primitive):
    """A reference whose first value does not matter; it is zero."""

    name = "empty_ref"
    makes_ref = True
    effects = NewRef.effects
    holes = _holes

    def shape(self, *, ty: Any, memory_space: Any) -> AbstractRef:
        return AbstractRef(ty, memory_space)

    def evaluate(self, args: Any, params: dict[str, Any]) -> Ref:
        ty = params["ty"]
        return Ref(self.shape(**params), box(np.zeros(ty.shape, ty.dtype), ty))

    def discharge(self, *, ty: Any, memory_space: Any) -> Cell:
        return Cell(zeros(ty))

    def ref(self, *, ty: Any, memory_space: Any) -> Cell:
        return Cell(np.zeros(ty.shape, ty.dtype))

    def jvp(self, primals: Any, tangents: Any, *, ty: Any, memory_space: Any) -> Any:
        return new_ref_p.jvp([zeros(ty)], [Zero(ty.to_tangent_aval())], **_plain(memory_space))

    def batch(self, axis: AxisData, args: Any, dims: Any, *, ty: Any, memory_space: Any) -> Any:
        ty = ty.update(shape=(axis.size, *ty.shape))
        return self.bind(ty=ty, memory_space=memory_space), 0


def _plain(memory_space: Any) -> dict[str, Any]:
    return {"memory_space": memory_space, "kind": None}


class Freeze(Primitive):
    """The last value of a reference."""

    name = "freeze"
    takes_refs = True
    effects = NewRef.effects
    holes = _holes

    def shape(self, ref: Any) -> Any:
        return ref.inner_aval

    def evaluate(self, args: Any, params: dict[str, Any]) -> Any:
        return another(args[0].value)

    def discharge(self, cell: Any) -> Any:
        return cell.value

    ref = discharge

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        return self.bind(*primals), self.bind(*tangents)

    batch = batch_in_place


class FreeRef(Primitive):
    """The end of a reference."""

    name = "free_ref"
    multiple_results = True
    takes_refs = True
    effects = NewRef.effects
    holes = _holes

    def shape(self, ref: Any) -> list[Any]:
        return []

    def evaluate(self, args: Any, params: dict[str, Any]) -> list[Any]:
        return self.discharge(*args)

    def discharge(self, cell: Any) -> list[Any]:
        cell.free()
        return []

    ref = discharge

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        self.bind(*tangents)
        return self.bind(*primals), []

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, Any]:
        return self.bind(*args), []


# --- reading and writing --------------------------------------------------------------------------


class Access(Primitive):
    """What get, swap and addupdate share: an index, whose operands come last."""

    takes_refs = True
    holes = _holes
    values = 0  # operands between the reference and the index

    def result(self, ref: Any, tree: Any, operands: Any) -> ShapedArray:
        """The type of the part of a reference."""
        transforms = tree_unflatten(tree, operands)
        return (
            ref.inner_aval.update(shape=transforms[-1].result_shape)
            if transforms
            else (ref.inner_aval)
        )

    def value_for(self, aval: AbstractRef, value: Any) -> Any:
        """A value to be written, numbers in the dtype of the reference."""
        given = typeof(value)
        inner = aval.inner_aval
        fits = given.dtype == inner.dtype or (
            given.weak_type
            and any(
                dtypes.issubdtype(given.dtype, kind) and dtypes.issubdtype(inner.dtype, kind)
                for kind in (np.floating, np.integer)
            )
        )
        if not fits:
            raise ValueError(
                errors.located(
                    f"{self.name} got a value of type {given.str_short()} for a reference of type"
                    f" {aval}",
                    f"Convert it: value.astype({inner.dtype.name!r}).",
                )
            )
        return like(value, inner)

    def check(self, ref: Any, value: Any, part: Any) -> None:
        """Raise ValueError unless the value has the shape of the part that it is for."""
        if value.shape != part.shape or value.dtype != ref.dtype:
            raise ValueError(
                f"{self.name} got a value of type {value.str_short()} for a part of shape"
                f" {part.shape} of a reference of type {ref.str_short()}; a value is not broadcast:"
                " write jnp.full or jnp.broadcast_to"
            )

    def evaluate(self, args: Any, params: dict[str, Any]) -> Any:
        self.shape(*map(typeof, args), **params)
        ref, *rest = args
        values, operands = rest[: self.values], rest[self.values :]
        return self.discharge(ref, *map(_own, values), *operands, **params)

    def at_batch(
        self, axis: AxisData, args: Any, dims: Any, tree: Any
    ) -> tuple[list[Any], Any, int] | None:
        """Operands and tree of the same index over a batch, and the batch axis of the part.

        None where the index itself is of the batch, or made of arrays.
        """
        skip = 1 + self.values
        transforms = tree_unflatten(tree, args[skip:])
        if not transforms:
            return [], tree, dims[0]
        plain = all(d is None for d in dims[skip:]) and len(transforms) == 1
        if not plain or transforms[0].has_arrays or type(transforms[0]) is Reshaped:
            return None
        indexer, place = transforms[0].with_axis(dims[0], axis.size)
        operands, tree = tree_flatten((indexer,))
        return operands, tree, place

    def pp_place(self, eqn: Any, context: Any) -> str:
        """The reference and the index, as they are written."""
        skip = 1 + self.values
        names = [_short(x, context) for x in eqn.invars]
        transforms = tree_unflatten(eqn.params["tree"], names[skip:])
        parts = [
            f"{{reshape({','.join(map(str, t.result_shape))})}}"
            if type(t) is Reshaped
            else f"[{','.join(map(_pp_entry, t.indices, t.shape))}]"
            for t in transforms
        ]
        return names[0] + ("".join(parts) or "[...]")


def _short(atom: Any, context: Any) -> str:
    if hasattr(atom, "val"):
        return str(np.asarray(atom.val).item()) if np.shape(atom.val) == () else "..."
    return context.name(atom)


def _pp_entry(entry: Any, size: int) -> str:
    if type(entry) is not Slice:
        return entry
    start, step = entry.start, entry.stride
    tail = f":{step}" if step != 1 else ""
    if type(start) is not int:
        return f"{start}:{start}+{entry.size * step}{tail}"
    stop = start + entry.size * step
    return f"{start or ''}:{'' if stop >= size else stop}{tail}"


class Get(Access):
    """What a reference holds at an index."""

    name = "get"
    effects = frozenset([ReadEffect()])

    def shape(self, ref: Any, *operands: Any, tree: Any) -> Any:
        return self.result(ref, tree, operands)

    def evaluate(self, args: Any, params: dict[str, Any]) -> Any:
        return another(super().evaluate(args, params))

    def discharge(self, cell: Any, *operands: Any, tree: Any) -> Any:
        return read(cell.value, tree_unflatten(tree, operands))

    def ref(self, cell: Any, *operands: Any, tree: Any) -> np.ndarray:
        return reference.read(cell.value, tree_unflatten(tree, operands))

    def jvp(self, primals: Any, tangents: Any, *, tree: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, tree=tree)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal(out)
        return out, self.bind(tangents[0], *primals[1:], tree=tree)

    def batch(self, axis: AxisData, args: Any, dims: Any, *, tree: Any) -> tuple[Any, Any]:
        found = None if dims[0] is None else self.at_batch(axis, args, dims, tree)
        if found is not None:
            operands, tree, place = found
            return self.bind(args[0], *operands, tree=tree), place
        whole = self.bind(args[0], tree=tree_flatten(())[1])

        def part(x: Any, *operands: Any) -> list[Any]:
            return [read(x, tree_unflatten(tree, operands))]

        (out,), (dim,) = batch(part, axis, [whole, *args[1:]], dims)
        return out, dim

    def pp_eqn(self, eqn: Any, context: Any, settings: Any) -> Any:
        results = pp_vars(eqn.outvars, context, types=settings.print_shapes)
        return concat([results, text(f" <- {self.pp_place(eqn, context)}")])


class Write(Access):
    """What swap and addupdate share: a value goes into a reference."""

    writes_ref = True
    values = 1

    def put(self, cell: Any, value: Any, operands: Any, tree: Any) -> None:
        raise NotImplementedError

    def written(self, ref: Any, value: Any, operands: Any, tree: Any) -> list[Any]:
        """The results, bound with the reference of another transformation."""
        out = self.bind(ref, value, *operands, tree=tree)
        return out if self.multiple_results else [out]

    def jvp(self, primals: Any, tangents: Any, *, tree: Any) -> tuple[Any, Any]:
        (ref, value, *operands), (ref_dot, value_dot, *_) = primals, tangents
        transforms = tree_unflatten(tree, operands)
        if type(ref_dot) is not Zero and any(t.has_arrays for t in transforms):
            pairs = (ref, value, ref_dot, instantiate(value_dot))
            outs, outs_dot = self._jvp_whole(*pairs, operands, tree)
            return (outs, outs_dot) if self.multiple_results else (outs[0], outs_dot[0])
        outs = self.written(ref, value, operands, tree)
        if type(ref_dot) is not Zero:
            outs_dot = self.written(ref_dot, instantiate(value_dot), operands, tree)
        else:
            if type(value_dot) is not Zero and typeof(ref).kind is None:
                raise _not_followed(self.name, "differentiated", typeof(ref))
            outs_dot = [Zero.from_primal(out) for out in outs]
        return (outs, outs_dot) if self.multiple_results else (outs[0], outs_dot[0])

    def _jvp_whole(
        self, ref: Any, value: Any, ref_dot: Any, value_dot: Any, operands: Any, tree: Any
    ) -> tuple[list[Any], list[Any]]:
        """By the derivative of a scatter, which knows what to do where an index is repeated."""
        nowhere = tree_flatten(())[1]
        primals = [get_p.bind(ref, tree=nowhere), value]
        tangents = [get_p.bind(ref_dot, tree=nowhere), value_dot]

        def into(x: Any, value: Any) -> list[Any]:
            return self._into(x, value, operands, tree)

        (after, *outs), (after_dot, *outs_dot) = jvp(into, primals, tangents)
        swap_p.bind(ref, after, tree=nowhere)
        swap_p.bind(ref_dot, instantiate(after_dot), tree=nowhere)
        return outs, outs_dot

    def _into(self, x: Any, value: Any, operands: Any, tree: Any) -> list[Any]:
        """An array that was written into, and the results."""
        cell = Cell(x)
        out = self.discharge(cell, value, *operands, tree=tree)
        return [cell.value, *(out if self.multiple_results else [out])]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, tree: Any) -> tuple[Any, Any]:
        (ref, value, *operands), dim = args, dims[0]
        if dim is None:
            raise _not_followed(self.name, "mapped", typeof(ref))
        found = self.at_batch(axis, args, dims, tree)
        if found is not None:
            operands, tree, place = found
            outs = self.written(ref, match_axis(axis.size, dims[1], place, value), operands, tree)
            places = [place] * len(outs)
        else:
            outs, places = self._batch_whole(axis, args, dims, tree)
        return (outs, places) if self.multiple_results else (outs[0], places[0])

    def _batch_whole(self, axis: AxisData, args: Any, dims: Any, tree: Any) -> Any:
        """By reading everything, writing into that, and putting it back."""
        ref, nowhere = args[0], tree_flatten(())[1]
        whole = get_p.bind(ref, tree=nowhere)

        def into(x: Any, value: Any, *operands: Any) -> list[Any]:
            return self._into(x, value, operands, tree)

        (after, *outs), (place, *places) = batch(into, axis, [whole, *args[1:]], dims)
        swap_p.bind(ref, match_axis(axis.size, place, dims[0], after), tree=nowhere)
        return outs, places


def _not_followed(name: str, how: str, aval: Any) -> ValueError:
    return ValueError(
        errors.located(
            f"{name} puts a {how} value into a reference of type {aval} that is not {how}",
            f"Make the reference an argument of the {how} function, or make it inside"
            + (", or write stop_gradient(value)." if how == "differentiated" else "."),
        )
    )


class Swap(Write):
    """Put a value at an index; what was there is the result."""

    name = "swap"
    effects = frozenset([WriteEffect()])

    def shape(self, ref: Any, value: Any, *operands: Any, tree: Any) -> Any:
        part = self.result(ref, tree, operands)
        self.check(ref, value, part)
        return part

    def put(self, cell: Any, value: Any, operands: Any, tree: Any) -> None:
        """Write, without reading first."""
        transforms = tree_unflatten(tree, operands)
        self.shape(typeof(cell), typeof(value), *map(typeof, operands), tree=tree)
        cell.value = write(cell.value, transforms, _own(value))

    def discharge(self, cell: Any, value: Any, *operands: Any, tree: Any) -> Any:
        transforms = tree_unflatten(tree, operands)
        before = cell.value
        cell.value = write(before, transforms, value)
        return read(before, transforms)

    def ref(self, cell: Any, value: Any, *operands: Any, tree: Any) -> np.ndarray:
        transforms, before = tree_unflatten(tree, operands), cell.value
        cell.value = reference.write(before, transforms, value, add=False)
        return reference.read(before, transforms)

    def pp_eqn(self, eqn: Any, context: Any, settings: Any) -> Any:
        place, value = self.pp_place(eqn, context), pp_vars(eqn.invars[1:2], context)
        (out,) = eqn.outvars
        if type(out).__name__ == "DropVar":
            return concat([text(f"{place} <- "), value])
        shown = f":{pp_aval(out.aval)}" if settings.print_shapes else ""
        return concat([text(f"{context.name(out)}{shown}, {place} <- {place}, "), value])


class AddUpdate(Write):
    """Add a value at an index."""

    name = "addupdate"
    multiple_results = True
    effects = frozenset([AccumEffect()])

    def shape(self, ref: Any, value: Any, *operands: Any, tree: Any) -> list[Any]:
        self.check(ref, value, self.result(ref, tree, operands))
        return []

    def discharge(self, cell: Any, value: Any, *operands: Any, tree: Any) -> list[Any]:
        cell.value = accumulate(cell.value, tree_unflatten(tree, operands), value)
        return []

    def ref(self, cell: Any, value: Any, *operands: Any, tree: Any) -> list[Any]:
        transforms = tree_unflatten(tree, operands)
        cell.value = reference.write(cell.value, transforms, value, add=True)
        return []

    def pp_eqn(self, eqn: Any, context: Any, settings: Any) -> Any:
        value = pp_vars(eqn.invars[1:2], context)
        return concat([text(f"{self.pp_place(eqn, context)} += "), value])


new_ref_p = NewRef()
empty_ref_p = EmptyRef()
freeze_p = Freeze()
free_ref_p = FreeRef()
get_p = Get()
swap_p = Swap()
addupdate_p = AddUpdate()
