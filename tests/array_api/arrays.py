"""Checks of creation, data types, manipulation, indexing, searching, sorting, sets, statistics."""

from functools import partial
from typing import Any

import numpy as np

from tests.array_api import table
from tests.array_api.suite import Library, Suite, compare, raises, sample

TALL: dict[str, tuple[int, ...]] = {"vector": (5,), "matrix": (3, 4), "cube": (2, 3, 4)}


def each_dtype(suite: Suite, name: str, call: Any, *shapes: tuple[int, ...], **how: Any) -> None:
    """A check for each dtype of a kind."""
    kind, low, high = how.pop("kind", "all"), how.pop("low", -4), how.pop("high", 4)
    for dtype in table.KINDS[kind]:
        values = [sample(dtype, shape, low, high) for shape in shapes]
        suite.same(f"{name}/{dtype}", partial(call, dtype=dtype), *values, **how)


def own(m: Any, dtype: str) -> Any:
    return getattr(m, dtype)


# --- creation and data types ----------------------------------------------------------------------


def add_creation(suite: Suite) -> None:
    for dtype in table.ALL:
        for name in ("zeros", "ones"):
            for shape in ((), 3, (0,), (2, 3), [2, 1]):
                suite.same(
                    f"creation/{name}/{shape}/{dtype}",
                    lambda m, name=name, shape=shape, dtype=dtype: getattr(m, name)(
                        shape, dtype=own(m, dtype)
                    ),
                )
            x = sample(dtype, (2, 3))
            suite.same(
                f"creation/{name}_like/{dtype}",
                lambda m, x, name=name: getattr(m, f"{name}_like")(x),
                x,
            )
        suite.add(f"creation/empty/{dtype}", partial(check_empty, dtype))
        fill = sample(dtype, ()).item()
        suite.same(
            f"creation/full/{dtype}",
            lambda m, fill=fill, dtype=dtype: m.full((2, 3), fill, dtype=own(m, dtype)),
        )
        suite.same(
            f"creation/full_like/{dtype}",
            lambda m, x, f=fill: m.full_like(x, f),
            sample(dtype, (3,)),
        )
        suite.same(
            f"creation/eye/{dtype}",
            lambda m, dtype=dtype: [
                m.eye(3, dtype=own(m, dtype)),
                m.eye(3, 4, k=1, dtype=own(m, dtype)),
                m.eye(2, 3, k=-1, dtype=own(m, dtype)),
                m.eye(0, 2, k=5, dtype=own(m, dtype)),
            ],
        )
        suite.same(
            f"creation/asarray/{dtype}",
            lambda m, x, dtype=dtype: [
                m.asarray(x),
                m.asarray(x, copy=True),
                m.asarray([[1, 0], [0, 1]], dtype=own(m, dtype)),
            ],
            sample(dtype, (2, 3)),
        )
    for dtype in table.INTS + table.FLOATS:
        suite.same(
            f"creation/arange/{dtype}",
            lambda m, dtype=dtype: [
                m.arange(5, dtype=own(m, dtype)),
                m.arange(2, 9, 3, dtype=own(m, dtype)),
                m.arange(9, 2, dtype=own(m, dtype)),
                m.arange(1, stop=4, step=2, dtype=own(m, dtype)),
            ],
        )
    for dtype in table.FLOATS + table.COMPLEX:
        suite.same(
            f"creation/linspace/{dtype}",
            lambda m, dtype=dtype: [
                m.linspace(0, 1, 5, dtype=own(m, dtype)),
                m.linspace(-2.0, 3.0, num=4, endpoint=False, dtype=own(m, dtype)),
                m.linspace(1, 2, 0, dtype=own(m, dtype)),
                m.linspace(1, 2, 1, dtype=own(m, dtype)),
            ],
        )
    defaults = {
        "arange": lambda m: [m.arange(3), m.arange(3.0), m.arange(0, 1, 0.25)],
        "linspace": lambda m: [m.linspace(0, 3, 4)],
        "zeros": lambda m: [m.zeros(2), m.ones(2), m.eye(2), m.empty((0, 2))],
        "full": lambda m: [m.full(2, 1), m.full(2, 1.5), m.full(2, True), m.full(2, 1j)],
        "asarray": lambda m: [m.asarray(v) for v in (1, 1.5, True, 1j, [1, 2], [[1.5], [2]], [])],
        "asarray/mixed": lambda m: [m.asarray([1, 2.5]), m.asarray([1, 2j]), m.asarray((True,))],
        "meshgrid": lambda m: [
            *m.meshgrid(m.arange(3), m.arange(2)),
            *m.meshgrid(m.arange(3), m.arange(2), indexing="ij"),
            *m.meshgrid(m.arange(2)),
            *m.meshgrid(),
        ],
    }
    for name, call in defaults.items():
        suite.same(f"creation/default dtype/{name}", call)
    suite.add("creation/device", check_devices)
    suite.same(
        "creation/tril",
        lambda m, x: [m.tril(x), m.tril(x, k=1), m.triu(x, k=-1), m.triu(x)],
        sample("float32", (2, 3, 4)),
    )


def check_empty(dtype: str, library: Library) -> None:
    xp, own = library.xp, library.dtypes[dtype]
    like = xp.empty_like(xp.zeros((2, 3), dtype=own))
    for array in (xp.empty((2, 3), dtype=own), like):
        assert array.shape == (2, 3) and array.dtype == own


def check_devices(library: Library) -> None:
    xp = library.xp
    for device in xp.__array_namespace_info__().devices():
        for array in (xp.zeros(2, device=device), xp.asarray([1], device=device)):
            assert array.device in (array.device if device is None else device,)
            assert array.to_device(array.device).device == array.device
        assert xp.ones_like(array, device=device).device == array.device


def check_info(library: Library) -> None:
    info = library.xp.__array_namespace_info__()
    assert set(info.capabilities()) >= {
        "boolean indexing",
        "data-dependent shapes",
        "max dimensions",
    }
    assert info.default_device() in info.devices()
    defaults = info.default_dtypes()
    assert set(defaults) == {"real floating", "complex floating", "integral", "indexing"}
    assert library.xp.asarray(1.5).dtype == defaults["real floating"]
    assert library.xp.asarray(1).dtype == defaults["integral"]
    assert library.xp.asarray(1j).dtype == defaults["complex floating"]
    assert library.xp.argmax(library.xp.ones(3)).dtype == defaults["indexing"]


def check_info_kind(kind: str, library: Library) -> None:
    info = library.xp.__array_namespace_info__()
    found = info.dtypes(kind=kind)
    assert set(found) == set(library.kind(kind))
    assert all(library.dtypes[name] == dtype for name, dtype in found.items())
    assert set(info.dtypes(kind=(kind, "bool"))) == set(found) | {"bool"}
    for name, dtype in library.dtypes.items():
        assert library.xp.isdtype(dtype, kind) == (name in found)
        assert library.xp.isdtype(dtype, (kind, dtype))


def check_limits(dtype: str, library: Library) -> None:
    xp, own = library.xp, library.dtypes[dtype]
    if dtype in table.INTS:
        info, want = xp.iinfo(own), np.iinfo(dtype)
        assert (info.bits, info.min, info.max) == (want.bits, want.min, want.max)
        assert type(info.max) is type(info.min) is int and info.dtype == own
        assert xp.iinfo(xp.ones(1, dtype=own)).bits == want.bits
        return
    info, limits = xp.finfo(own), np.finfo(dtype)
    assert info.bits == limits.bits
    for name in ("eps", "max", "min", "smallest_normal"):
        assert getattr(info, name) == getattr(limits, name), name
        assert isinstance(getattr(info, name), float), name
    assert info.dtype == (own if dtype in table.FLOATS else xp.finfo(own).dtype)
    assert xp.finfo(xp.ones(1, dtype=own)).bits == limits.bits


def check_cast(first: str, second: str, library: Library) -> None:
    xp = library.xp
    x = sample(first, (2, 3), 0, 4)
    complex_to_real = first in table.COMPLEX and second not in table.COMPLEX
    if not complex_to_real:
        compare(library, xp.astype(library.array(x), library.dtypes[second]), x.astype(second))
    want = table.promoted(first, second) == second
    if want:
        assert xp.can_cast(library.dtypes[first], library.dtypes[second])
        assert xp.can_cast(library.array(x), library.dtypes[second])
    elif table.promoted(first, second) in library.dtypes:
        assert not xp.can_cast(library.dtypes[first], library.dtypes[second])


def add_data_types(suite: Suite) -> None:
    suite.add("info/namespace", check_info)
    for kind in list(table.KINDS)[:7]:
        suite.add(f"info/{kind}", partial(check_info_kind, kind))
    for dtype in table.INTS + table.FLOATS + table.COMPLEX:
        suite.add(f"limits/{dtype}", partial(check_limits, dtype))
    for first in table.ALL:
        for second in table.ALL:
            suite.add(f"cast/{first}/{second}", partial(check_cast, first, second))
    suite.same("cast/astype keeps", lambda m, x: m.astype(x, m.float32, copy=False), TWO)
    suite.same(
        "broadcast/broadcast_to",
        lambda m, x: [m.broadcast_to(x, (4, 2, 3)), m.broadcast_to(m.asarray(1.5), (2,))],
        TWO,
    )
    suite.same(
        "broadcast/broadcast_arrays",
        lambda m, x, y: list(m.broadcast_arrays(x, y, m.asarray(1))),
        TWO,
        sample("int32", (4, 1, 3)),
    )
    suite.add(
        "broadcast/incompatible",
        lambda lib: raises(lambda: lib.xp.broadcast_to(lib.xp.ones((2, 3)), (3, 2))),
    )


TWO = sample("float32", (2, 3))


# --- manipulation ---------------------------------------------------------------------------------

MANIPULATION = {
    "concat": lambda m, x: [m.concat([x, x, x]), m.concat((x, x), axis=-1), m.concat([x], axis=1)],
    "concat flat": lambda m, x: [m.concat([x, x[:0]], axis=None)],
    "expand_dims": lambda m, x: [m.expand_dims(x, axis=a) for a in (0, 1, -1, -3)],
    "flip": lambda m, x: [m.flip(x), m.flip(x, axis=0), m.flip(x, axis=(0, -1))],
    "moveaxis": lambda m, x: [m.moveaxis(x, 0, -1), m.moveaxis(x, (0, 1), (1, 0))],
    "permute_dims": lambda m, x: [m.permute_dims(x, (1, 0)), m.permute_dims(x, axes=(0, 1))],
    "repeat": lambda m, x: [
        m.repeat(x, 2),
        m.repeat(x, 3, axis=0),
        m.repeat(x, m.asarray([1, 0, 2]), axis=-1),
        m.repeat(x, 0, axis=1),
    ],
    "reshape": lambda m, x: [
        m.reshape(x, (6,)),
        m.reshape(x, (3, -1)),
        m.reshape(x, (1, 2, 3, 1)),
        m.reshape(x[:, :0], (0, 5)),
        m.reshape(x, shape=(-1,), copy=True),
    ],
    "roll": lambda m, x: [
        m.roll(x, 1),
        m.roll(x, -2, axis=1),
        m.roll(x, (1, 4), axis=(0, 1)),
        m.roll(x, 7, axis=0),
    ],
    "squeeze": lambda m, x: [
        m.squeeze(m.reshape(x, (1, 2, 1, 3)), axis=0),
        m.squeeze(m.reshape(x, (1, 2, 1, 3)), (0, 2)),
        m.squeeze(m.reshape(x, (1, 2, 1, 3)), axis=-2),
    ],
    "stack": lambda m, x: [m.stack([x, x]), m.stack((x, x, x), axis=-1), m.stack([x], axis=1)],
    "tile": lambda m, x: [m.tile(x, (2,)), m.tile(x, (2, 1, 2)), m.tile(x, ()), m.tile(x, (0, 1))],
    "unstack": lambda m, x: [*m.unstack(x), *m.unstack(x, axis=-1)],
    "matrix_transpose": lambda m, x: [m.matrix_transpose(x), x.mT, x.T],
    "take": lambda m, x: [
        m.take(x, m.asarray([2, 0, 0]), axis=1),
        m.take(x[0], m.asarray([1])),
        m.take(x, m.asarray([1, 0]), axis=-2),
    ],
    "take_along_axis": lambda m, x: [
        m.take_along_axis(x, m.asarray([[2], [0]])),
        m.take_along_axis(x, m.asarray([[1, 0, 1]]), axis=0),
    ],
    "where": lambda m, x: [
        m.where(m.asarray([True, False, True]), x, m.zeros_like(x)),
        m.where(m.asarray([[True], [False]]), x[:1], x),
    ],
}
# where=condition with a scalar of the array's kind
INDEXING = {
    "integer": lambda x: [x[0], x[-1], x[1, 2], x[1, -1, 0], x[0, 0, 0]],
    "slice": lambda x: [
        x[:],
        x[1:],
        x[:1, ::2],
        x[::-1],
        x[..., 3:0:-2],
        x[5:],
        x[:, -100:100],
        x[:, 2:1],
        x[1, :, 1:3],
    ],
    "ellipsis": lambda x: [x[...], x[..., 0], x[0, ...], x[0, ..., 1], x[..., 1:2, 0]],
    "newaxis": lambda x: [x[None], x[:, None], x[..., None], x[None, 0, None, ..., None]],
    "empty tuple": lambda x: [x[()]],
    "mask": lambda x: [x[x == x], x[x != x], x[(x == x)[:, 0, 0]]],
}


def check_setitem(library: Library) -> None:
    x = library.xp.zeros((2, 3))
    x[0, 1:] = 1
    x[1, ...] = library.xp.asarray([1.0, 2.0, 3.0])
    compare(library, x, np.array([[0.0, 1.0, 1.0], [1.0, 2.0, 3.0]]))


def add_manipulation(suite: Suite) -> None:
    for name, call in MANIPULATION.items():
        each_dtype(suite, f"manipulation/{name}", lambda m, x, dtype, c=call: c(m, x), (2, 3))
    for name, call in INDEXING.items():
        each_dtype(suite, f"index/{name}", lambda m, x, dtype, c=call: c(x), (2, 3, 4))
    each_dtype(
        suite,
        "index/integer arrays",
        lambda m, x, dtype: [
            x[m.asarray([1, 0, 1]), m.asarray([2, 0, -1])],
            x[m.asarray([[1], [0]]), m.asarray([2, 0])],
            x[m.asarray([1, 0]), 1],
        ],
        (2, 3),
    )
    suite.same("index/zero dimensions", lambda m: [m.asarray(1.5)[()], m.asarray(2)[...]])
    suite.same(
        "index/mask of zero dimensions",
        lambda m: [m.asarray(1.5)[m.asarray(True)], m.asarray(1.5)[m.asarray(False)]],
    )
    suite.add("index/setitem", check_setitem)
    for name, call in {
        "reshape": lambda xp: xp.reshape(xp.ones(6), (4,)),
        "squeeze": lambda xp: xp.squeeze(xp.ones((2, 1)), 0),
        "concat": lambda xp: xp.concat([xp.ones(2), xp.ones((2, 1))]),
        "expand_dims": lambda xp: xp.expand_dims(xp.ones(2), axis=3),
        "permute_dims": lambda xp: xp.permute_dims(xp.ones((2, 3)), (0, 0)),
        "add": lambda xp: xp.ones(2) + xp.ones(3),
        "float index": lambda xp: xp.ones(3)[1.0],
        "too many indices": lambda xp: xp.ones(3)[0, 0],
    }.items():
        suite.add(f"refuses/{name}", lambda lib, call=call: raises(lambda: call(lib.xp)))


# --- the array object -----------------------------------------------------------------------------


def check_conversion(dtype: str, library: Library) -> None:
    value = sample(dtype, (), 1, 3)
    x = library.array(value)
    assert bool(x) == bool(value) and complex(x) == complex(value)
    assert type(bool(x)) is bool and type(complex(x)) is complex
    if dtype not in table.COMPLEX:
        assert int(x) == int(value) and type(int(x)) is int
        assert float(x) == float(value) and type(float(x)) is float
    if dtype in table.INTS:
        assert x.__index__() == int(value) and [0, 1, 2, 3, 4][x] == int(value)
    else:
        raises(lambda: [0, 1, 2, 3, 4][x]) if dtype != "bool" else None
    raises(lambda: bool(library.array(sample(dtype, (3,)))))
    raises(lambda: int(library.array(sample(dtype, (3,)))))


def check_attributes(library: Library) -> None:
    x = library.xp.ones((2, 3, 4), dtype=library.dtypes["float32"])
    assert (x.ndim, x.size, x.shape) == (3, 24, (2, 3, 4))
    assert x.dtype == library.dtypes["float32"] and type(x.shape) is tuple
    assert x.mT.shape == (2, 4, 3) and x[0].T.shape == (4, 3)
    raises(lambda: library.xp.ones(3).mT)
    assert x.to_device(x.device).device == x.device


def check_namespace(library: Library) -> None:
    x = library.xp.ones(2)
    for version in (None, table.VERSION):
        module = x.__array_namespace__(api_version=version)
        assert module.asarray is library.xp.asarray and module.add is library.xp.add
    raises(lambda: x.__array_namespace__(api_version="1999.01"))
    assert library.xp.__array_api_version__ >= table.VERSION


def check_dlpack(dtype: str, library: Library) -> None:
    x = sample(dtype, (2, 3))
    array = library.array(x)
    kind, index = array.__dlpack_device__()
    assert int(kind) == 1 and index == 0
    np.testing.assert_array_equal(np.from_dlpack(array), x)
    compare(library, library.xp.from_dlpack(array), x)
    compare(library, library.xp.from_dlpack(x), x)
    compare(library, library.xp.from_dlpack(array, copy=True), x)
    assert "dltensor" in repr(array.__dlpack__(max_version=(1, 0)))
    assert "dltensor" in repr(array.__dlpack__(copy=True, dl_device=(1, 0), stream=None))


def add_object(suite: Suite) -> None:
    for dtype in table.ALL:
        suite.add(f"conversion/{dtype}", partial(check_conversion, dtype))
        suite.add(f"dlpack/{dtype}", partial(check_dlpack, dtype))
    suite.add("object/attributes", check_attributes)
    suite.add("object/namespace", check_namespace)


# --- searching, sorting, sets, statistics ---------------------------------------------------------

AXES = ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"keepdims": True})
TUPLES = ({"axis": (0, 1)}, {"axis": (0, -1), "keepdims": True}, {"axis": ()})
REDUCTIONS = {
    "all": ("all", TUPLES),
    "any": ("all", TUPLES),
    "argmax": ("real", ()),
    "argmin": ("real", ()),
    "count_nonzero": ("all", TUPLES),
    "max": ("real", TUPLES),
    "min": ("real", TUPLES),
    "mean": ("floating", TUPLES),
    "prod": ("numeric", TUPLES),
    "std": ("real floating", (*TUPLES, {"correction": 1}, {"axis": 1, "correction": 0.5})),
    "sum": ("numeric", (*TUPLES, {"axis": None})),
    "var": ("real floating", (*TUPLES, {"correction": 1}, {"axis": 1, "correction": 0.5})),
}


def check_sort(dtype: str, library: Library) -> None:
    xp = library.xp
    x = sample(dtype, (4, 7), -2, 2)
    array = library.array(x)
    for axis in (-1, 0):
        for descending in (False, True):
            want = np.sort(x, axis=axis)
            want = np.flip(want, axis=axis) if descending else want
            compare(library, xp.sort(array, axis=axis, descending=descending), want)
            order = xp.argsort(array, axis=axis, descending=descending, stable=True)
            assert order.dtype == xp.argmax(xp.ones(2)).dtype
            compare(library, xp.take_along_axis(array, order, axis=axis), want)
            rank = np.take_along_axis(x, np.asarray(order), axis)
            same_as_next = np.diff(rank.astype(float), axis=axis) == 0
            steps = np.diff(np.asarray(order), axis=axis)
            assert np.all(steps[same_as_next] > 0), "equal elements changed their order"
            xp.argsort(array, axis=axis, descending=descending, stable=False)


def check_sets(dtype: str, library: Library) -> None:
    xp = library.xp
    x = sample(dtype, (3, 5), -2, 2)
    array = library.array(x)
    values, index, inverse, counts = xp.unique_all(array)
    want = np.unique_all(x)
    compare(library, values, want.values)
    compare(library, counts, want.counts)
    assert inverse.shape == x.shape and index.shape == values.shape == counts.shape
    assert xp.unique_all(array).inverse_indices.shape == x.shape
    np.testing.assert_array_equal(np.asarray(values)[np.asarray(inverse)], x)
    np.testing.assert_array_equal(x.ravel()[np.asarray(index)], np.asarray(values))
    # in which order the values come is left open
    compare(library, xp.sort(xp.unique_values(array)), np.sort(want.values))
    compare(library, list(xp.unique_counts(array)), [want.values, want.counts])
    values, inverse = xp.unique_inverse(array)
    np.testing.assert_array_equal(np.asarray(values)[np.asarray(inverse)], x)
    assert set(xp.unique_counts(array)._fields) == {"values", "counts"}
    assert set(xp.unique_inverse(array)._fields) == {"values", "inverse_indices"}


def check_unique_nan(library: Library) -> None:
    """NaN are all different to the standard."""
    x = np.array([1.0, np.nan, 0.0, np.nan, 1.0], np.float32)
    values, counts = library.xp.unique_counts(library.array(x))
    assert values.shape == (4,) and np.asarray(counts).tolist() == [1, 2, 1, 1]


def add_reductions(suite: Suite) -> None:
    for name, (kind, more) in REDUCTIONS.items():
        for number, options in enumerate((*AXES, *more)):
            each_dtype(
                suite,
                f"reduction/{name}/{number}",
                lambda m, x, dtype, name=name, o=options: getattr(m, name)(x, **o),
                (2, 3, 4),
                kind=kind,
                low=1 if name == "prod" else -4,
                high=2 if name == "prod" else 4,
            )
        each_dtype(
            suite,
            f"reduction/{name}/zero dimensions",
            lambda m, x, dtype, name=name: getattr(m, name)(x),
            (),
            kind=kind,
        )
    for name in ("sum", "prod", "all", "any", "count_nonzero"):
        kind = "numeric" if name in ("sum", "prod") else "all"
        each_dtype(
            suite,
            f"reduction/{name}/empty",
            lambda m, x, dtype, name=name: [getattr(m, name)(x), getattr(m, name)(x, axis=0)],
            (0, 3),
            kind=kind,
        )
    for name in ("mean", "std", "var"):
        suite.same(
            f"reduction/{name}/empty is nan",
            lambda m, x, name=name: getattr(m, name)(x),
            np.zeros(0, np.float32),
        )
    for name in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
        for dtype in table.INTS + table.FLOATS:
            suite.same(
                f"reduction/{name}/dtype=/{dtype}",
                lambda m, x, name=name, dtype=dtype: getattr(m, name)(x, dtype=own(m, dtype)),
                sample("int8", (5,), 1, 2),
            )
    for name in ("max", "min", "sum", "prod", "mean", "std", "var"):
        x = np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)
        suite.same(f"reduction/{name}/nan", lambda m, x, name=name: getattr(m, name)(x, axis=1), x)


def add_searching(suite: Suite) -> None:
    for name in ("cumulative_sum", "cumulative_prod"):
        each_dtype(
            suite,
            f"statistics/{name}",
            lambda m, x, dtype, name=name: [
                getattr(m, name)(x[0]),
                getattr(m, name)(x, axis=0),
                getattr(m, name)(x, axis=-1, include_initial=True),
            ],
            (3, 4),
            kind="numeric",
            low=-2,
            high=2,
        )
    each_dtype(
        suite,
        "elementwise/diff",
        lambda m, x, dtype: [
            m.diff(x),
            m.diff(x, axis=0, n=2),
            m.diff(x, n=0),
            m.diff(x, prepend=x[:, :1], append=x[:, :2]),
        ],
        (3, 4),
        kind="numeric",
    )
    each_dtype(
        suite,
        "elementwise/clip",
        lambda m, x, dtype: [
            m.clip(x, 1, 2),
            m.clip(x, min=2),
            m.clip(x, max=x[:1]),
            m.clip(x),
            m.clip(x, x[:1], None),
        ],
        (3, 4),
        kind="real",
    )
    each_dtype(suite, "searching/nonzero", lambda m, x, dtype: list(m.nonzero(x)), (3, 4))
    for side in ("left", "right"):
        each_dtype(
            suite,
            f"searching/searchsorted {side}",
            lambda m, x, y, dtype, side=side: [
                m.searchsorted(m.sort(x), y, side=side),
                m.searchsorted(x, y, side=side, sorter=m.argsort(x)),
            ],
            (7,),
            (2, 3),
            kind="real",
        )
    for dtype in table.BOOL + table.INTS + table.FLOATS:
        suite.add(f"sorting/{dtype}", partial(check_sort, dtype))
        suite.add(f"sets/{dtype}", partial(check_sets, dtype))
    suite.add("sets/nan", check_unique_nan)


def add_all(suite: Suite) -> None:
    add_creation(suite)
    add_data_types(suite)
    add_manipulation(suite)
    add_object(suite)
    add_reductions(suite)
    add_searching(suite)
