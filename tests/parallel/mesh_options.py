"""Law: every option of a function that says where arrays are has an effect, or is refused.

For each parameter of these functions there is a probe: a value, given where the default was, has to
change what is observed, or to raise. Run with eight devices; prints what breaks the law.
"""

import inspect
import sys
import warnings

import numpy as np

import weft
import weft.numpy as jnp
from weft import NamedSharding, P, lax
from weft.experimental.pjit import pjit
from weft.sharding import AxisType, Mesh, SingleDeviceSharding

X = np.arange(8.0, dtype=np.float32)
DEVICES = weft.devices()
AUTO = (AxisType.Auto,)
TWO = weft.make_mesh((2,), ("x",), axis_types=AUTO)
FOUR = weft.make_mesh((4,), ("x",), axis_types=AUTO)
HALVES = NamedSharding(TWO, P("x"))


def place(x):
    """Where an array is, and how it is divided."""
    return str(x.sharding), sorted(d.id for d in x.devices()), x.committed


def compiled(wrap, **options):
    """What is seen of a function of two arguments, and of its arguments after the call."""
    seen = []

    def f(x, n):
        seen.append(type(n).__name__)
        return x * 2

    args = [jnp.asarray(X) + 0, jnp.ones(8) if not options.get("numbers") else 3]
    options.pop("numbers", None)
    g = wrap(f, **options)
    text = str(weft.make_jaxpr(lambda *args: g(*args))(*args)) if not _static(options) else ""
    out = g(*args)
    deleted = [getattr(a, "is_deleted", bool)() for a in args]
    return place(out), out.tolist(), deleted, text, seen[0]


def _static(options):
    return any(name.startswith("static") for name in options)


def mapped(**options):
    def f(x, n):
        try:
            index = lax.axis_index("i")
        except NameError:
            index = 0
        return x + index, type(n).__name__ == "int"

    static = options.pop("numbers", False)
    x = jnp.arange(16.0).reshape(2, 2, 4)
    out, flag = weft.pmap(f, **options)(x, 3 if static else jnp.ones((2, 2)))
    return place(out), out.tolist(), np.asarray(flag).tolist(), x.is_deleted()


def spread(**options):
    given = {"mesh": TWO, "in_specs": P("x"), "out_specs": P("x")} | options
    return place(weft.shard_map(lambda x: x * 2, **given)(X))


def put(**options):
    x = jnp.asarray(X) + 0
    options.setdefault("device", None)
    out = weft.device_put(x, options.pop("device"), **options)
    alias = not x.is_deleted() and out.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    return place(out), x.is_deleted(), alias, out is x


def gradient(**options):
    x = weft.device_put(X, DEVICES[0])
    return place(weft.grad(lambda x: weft.device_put(x, DEVICES[1], **options).sum())(x))


def mesh(**options):
    made = weft.make_mesh(**{"axis_shapes": (2,), "axis_names": ("x",)} | options)
    return repr(made), [d.id for d in made.devices.flat]


# For each function, what is observed of it and a value for each option; `...` stands for a
# parameter without which there is no call.
JIT = {
    "fun": ...,
    "in_shardings": {"in_shardings": (HALVES, None)},
    "out_shardings": {"out_shardings": HALVES},
    "static_argnums": {"static_argnums": 1, "numbers": True},
    "static_argnames": {"static_argnames": "n", "numbers": True},
    "donate_argnums": {"donate_argnums": 0},
    "donate_argnames": {"donate_argnames": "x"},
    "keep_unused": {"keep_unused": True},
    "device": {"device": DEVICES[3]},
    "backend": {"backend": "nowhere"},
    "inline": {"inline": True},
    "compiler_options": {"compiler_options": {"no_such_option": 1}},
}


def built(**options):
    """What an executable over two devices gives, of a program that names none."""
    mesh = weft.sharding.AbstractMesh((2,), ("x",), AUTO)
    kind = weft.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh, P("x")))
    return place(weft.jit(lambda x: x * 2).trace(kind).lower().compile(**options)(X))


def shown(show, spec=HALVES.spec):
    """What a compiled function of a divided array shows."""
    seen = []
    f = weft.jit(lambda x: (show(lambda value: seen.append(str(value)), x), x * 2)[1])
    f(weft.device_put(X, NamedSharding(TWO, spec)))
    weft.effects_barrier()
    return seen


def ordered(**options):
    """What a program is that calls back to Python in order."""
    return str(weft.make_jaxpr(lambda x: weft.debug.callback(print, x, **options))(X).effects)


LAW = {
    "jit": (weft.jit, lambda **o: compiled(weft.jit, **o), JIT),
    "pjit": (pjit, lambda **o: compiled(pjit, **o), JIT),
    "pmap": (
        weft.pmap,
        mapped,
        {
            "fun": ...,
            "axis_name": {"axis_name": "i"},
            "in_axes": {"in_axes": (1, 1)},
            "out_axes": {"out_axes": (1, 0)},
            "static_broadcasted_argnums": {"static_broadcasted_argnums": 1, "numbers": True},
            "devices": {"devices": DEVICES[2:4]},
            "backend": {"backend": "nowhere"},
            "axis_size": {"axis_size": 4},
            "donate_argnums": {"donate_argnums": 0},
        },
    ),
    "shard_map": (
        weft.shard_map,
        spread,
        {
            "f": ...,
            "mesh": {"mesh": FOUR},
            "in_specs": {"in_specs": P("q")},
            "out_specs": {"out_specs": P(None)},
            "axis_names": {"axis_names": {"q"}},
            "check_vma": {"check_vma": False, "out_specs": P()},
        },
    ),
    "smap": (
        weft.smap,
        lambda **o: _smap(**o),
        {
            "f": ...,
            "in_axes": {"in_axes": None},
            "out_axes": {"out_axes": 1},
            "axis_name": {"axis_name": "q"},
        },
    ),
    "device_put": (
        weft.device_put,
        put,
        {
            "x": ...,
            "device": {"device": DEVICES[2]},
            "src": (gradient, {"src": DEVICES[2]}),
            "donate": {"donate": True},
            "may_alias": {"may_alias": False},
        },
    ),
    "with_sharding_constraint": (
        lax.with_sharding_constraint,
        lambda shardings=HALVES: place(lax.with_sharding_constraint(X, shardings)),
        {"x": ..., "shardings": {"shardings": NamedSharding(FOUR, P("x"))}},
    ),
    "make_mesh": (
        weft.make_mesh,
        mesh,
        {
            "axis_shapes": {"axis_shapes": (4,)},
            "axis_names": {"axis_names": ("y",)},
            "axis_types": {"axis_types": AUTO},
            "devices": {"devices": DEVICES[2:4]},
        },
    ),
    "NamedSharding": (
        NamedSharding,
        lambda mesh=TWO, spec=HALVES.spec, **o: place(
            weft.device_put(X, NamedSharding(mesh, spec, **o))
        ),
        {
            "mesh": {"mesh": FOUR},
            "spec": {"spec": P()},
            "memory_kind": {"memory_kind": "pinned_host"},
        },
    ),
    "SingleDeviceSharding": (
        SingleDeviceSharding,
        lambda device=DEVICES[0], **o: place(weft.device_put(X, SingleDeviceSharding(device, **o))),
        {"device": {"device": DEVICES[1]}, "memory_kind": {"memory_kind": "pinned_host"}},
    ),
    "compile": (
        weft.stages.Lowered.compile,
        built,
        {
            "compiler_options": {"compiler_options": {"no_such_option": 1}},
            "device_assignment": {"device_assignment": tuple(DEVICES[2:4])},
            "topology": {"topology": 3},
        },
    ),
    "debug.callback": (
        weft.debug.callback,
        lambda **o: shown(lambda note, x: weft.debug.callback(note, x, **o)),
        {
            "callback": ...,
            "args": ...,
            "ordered": (ordered, {"ordered": True}),
            "partitioned": {"partitioned": True},
            "kwargs": ...,
        },
    ),
    "lax.full": (
        lax.full,
        lambda shape=(8,), fill_value=1.0, **o: [
            place(lax.full(shape, fill_value, **o)),
            str(lax.full(shape, fill_value, **o).dtype),
            lax.full(shape, fill_value, **o).tolist(),
        ],
        {
            "shape": {"shape": (4,)},
            "fill_value": {"fill_value": 2.0},
            "dtype": {"dtype": "int32"},
            "sharding": {"sharding": HALVES},
        },
    ),
    "Mesh": (
        Mesh,
        lambda devices=TWO.devices, axis_names=("x",), **o: repr(
            [Mesh(devices, axis_names, **o), [d.id for d in devices]]
        ),
        {
            "devices": {"devices": np.array(DEVICES[2:4])},
            "axis_names": {"axis_names": ("y",)},
            "axis_types": {"axis_types": (AxisType.Explicit,)},
        },
    ),
}


def _smap(**options):
    with weft.set_mesh(TWO):
        given = {"in_axes": 0, "out_axes": 0, "axis_name": "x"} | options
        return np.asarray(weft.smap(lambda x: x * 2, **given)(X)).tolist()


def observed(observe, options):
    """What is seen, or that it was refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return observe(**options)
    except (TypeError, ValueError, RuntimeError, NameError) as error:
        return type(error).__name__


def broken():
    """The options that break the law, one line each."""
    for name, (function, observe, options) in LAW.items():
        known = [p for p in inspect.signature(function).parameters if p not in ("cls", "self")]
        for option in sorted({*known} ^ {*options}):
            yield f"{name}: {option} has no probe, or is no parameter"
        for option, given in options.items():
            if given is ...:
                continue
            how, given = given if isinstance(given, tuple) else (observe, given)
            rest = {"numbers": True} if "numbers" in given else {}
            rest |= {k: v for k, v in given.items() if k not in (option, "numbers")}
            if observed(how, rest) == observed(how, given):
                yield f"{name}: {option} has no effect"


if __name__ == "__main__":
    found = list(broken())
    print("\n".join([*found, f"{sum(len(o) for *_, o in LAW.values())} options"]))
    sys.exit(bool(found))
