"""Every parameter of a public function is read, or is listed here with the reason why not.

An option that is accepted and then ignored is a wrong answer that nobody sees. What a function
does with what it reads is for the tests of its topic; at the end are those of options that once
were ignored.
"""

import dis
import importlib
import inspect
import types

import pytest

import weft
import weft.numpy as jnp
from tools import api_coverage
from weft.experimental import sparse

# Parameters that no function needs to read, by name.
EVERYWHERE = {
    "out_sharding": "how an array is divided over devices, of which there is one",
    "overwrite_a": "arrays are immutable",
    "overwrite_b": "arrays are immutable",
    "overwrite_c": "arrays are immutable",
    "check_finite": "values are not known while a function is traced; JAX does not look either",
}
# Parameters of single functions.
HERE = {
    "debug.breakpoint token": "nothing has to wait for it: calls of Python come in order",
    "debug.visualize_sharding use_color": "the picture is text",
    "debug.visualize_sharding scale": "the picture is text",
    "debug.visualize_sharding color_map": "the picture is text",
    **{
        f"distributed.initialize {name}": "MPI knows where processes are, and who has ended"
        for name in (
            "heartbeat_timeout_seconds partition_index shutdown_timeout_seconds slice_index"
        ).split()
    },
    "experimental.jet.zero_prop series_in": "a constant has no series",
    "experimental.mesh_utils.create_device_mesh allow_split_physical_axes": "CPUs have no torus",
    "experimental.sparse.bcoo_broadcast_in_dim sharding": EVERYWHERE["out_sharding"],
    "experimental.sparse.bcoo_reshape sharding": EVERYWHERE["out_sharding"],
    "experimental.sparse.bcsr_broadcast_in_dim sharding": EVERYWHERE["out_sharding"],
    "experimental.sparse.bcoo_conv_general_dilated precision": "sums are in full precision",
    "experimental.sparse.bcoo_dot_general precision": "sums are in full precision",
    "experimental.sparse.bcsr_dot_general precision": "sums are in full precision",
    "experimental.sparse.bcoo_gather unique_indices": "a promise, which changes no result",
    "experimental.sparse.bcoo_gather indices_are_sorted": "a promise, which changes no result",
    "experimental.sparse.bcoo_gather fill_value": "read with mode='fill', which is refused",
    "experimental.sparse.sparsify use_tracer": "one way of two in JAX, with the same results",
    "export.export _override_lowering_rules": "of MLIR, which is not made; private in JAX",
    "lax.create_token _": "JAX ignores it, too",
    "lax.scan _split_transpose": "how the backward pass is cut into loops, not what it gives",
    "lax.linalg.qdwh is_hermitian": "a promise, which changes no result",
    "nn.scaled_dot_general implementation": "which library of NVIDIA's is called",
    "nn.initializers.ones key": "nothing is drawn",
    "nn.initializers.zeros key": "nothing is drawn",
    "numpy.histogram_bin_edges weights": "as in NumPy, no bins depend on them",
    "numpy.reshape copy": "whether memory is shared cannot be seen: arrays are immutable",
    "numpy.unique sorted": "the result is sorted, as in JAX",
    "scipy.linalg.eigh turbo": "which routine of LAPACK's is called",
    "scipy.linalg.eigh_tridiagonal key": "where JAX's iteration starts; ours starts from bounds",
    "scipy.linalg.expm_frechet method": "there is one method, as in JAX",
    "scipy.linalg.qr lwork": "memory that LAPACK works in",
    "scipy.linalg.solve debug": "an old option of SciPy's",
    "scipy.linalg.solve_triangular debug": "an old option of SciPy's",
    "scipy.linalg.svd lapack_driver": "which routine of LAPACK's is called",
}


def written(function):
    """The Python function behind a public one, or None if it is a class or a setting."""
    while True:
        if isinstance(function, types.FunctionType):
            inner = function.__dict__.get("__wrapped__")
            if inner is None:
                return function
            function = inner
            continue
        names = ("_fun", "__wrapped__", "fun", "__func__")
        function = next((f for n in names if callable(f := getattr(function, n, None))), None)
        if function is None:
            return None


def reads(code, name):
    """Whether a function, or one inside of it, loads the variable of a name."""
    for step in dis.get_instructions(code):
        found = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith("LOAD") and name in found:
            return True
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return any(name in c.co_freevars and reads(c, name) for c in inner)


def public_functions():
    for module, names in api_coverage.read_list().items():
        short = module.removeprefix("jax").lstrip(".")
        try:
            home = importlib.import_module(f"weft.{short}".rstrip("."))
        except ImportError:
            continue  # the coverage of the interface has its own test
        for name in names:
            function = getattr(home, name, None)
            if callable(function) and not isinstance(function, type):
                if (found := written(function)) is not None:
                    yield f"{short}.{name}".lstrip("."), found


def unread():
    """Every parameter that its function does not load."""
    for name, function in public_functions():
        for p in inspect.signature(function, follow_wrapped=False).parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                continue
            if not reads(function.__code__, p.name):
                yield name, p.name


def test_every_parameter_is_read():
    known = set(HERE)
    found = {f"{name} {p}" for name, p in unread() if p not in EVERYWHERE}
    assert found - known == set(), "accepted and ignored: give them an effect, or refuse them"
    assert known - found == set(), "these are read by now: take them from the table"


def test_the_walk_sees_what_is_ignored():
    def f(a, b=1, *, c=2, d=3):
        return a, lambda: c

    unused = [p for p in inspect.signature(f).parameters if not reads(f.__code__, p)]
    assert unused == ["b", "d"]
    assert sum(1 for _ in public_functions()) > 1000


# --- options that were ignored once ---------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda axes: weft.grad(jnp.sin, reduce_axes=axes),
        lambda axes: weft.value_and_grad(jnp.sin, reduce_axes=axes),
        lambda axes: weft.vjp(jnp.sin, 1.0, reduce_axes=axes),
        lambda axes: weft.linear_transpose(lambda x: x, 1.0, reduce_axes=axes),
    ],
)
def test_reduce_axes_are_refused(call):
    call(())
    with pytest.raises(NotImplementedError, match="psum"):
        call(("i",))


@pytest.mark.parametrize("name", ["process_index", "process_count", "process_indices", "host_id"])
def test_backends_are_checked(name):
    getattr(weft, name)("cpu")
    with pytest.raises(RuntimeError, match="nope"):
        getattr(weft, name)("nope")


def test_devices_of_other_hosts():
    assert weft.local_devices(host_id=0) == weft.devices()
    with pytest.raises(ValueError, match="process_index 5"):
        weft.local_devices(host_id=5)


def test_sums_over_the_mapped_axis():
    mapped = weft.vmap(lambda x: 2 * x, in_axes=1, out_axes=None, sum_match=True)
    assert mapped(jnp.arange(6.0).reshape(2, 3)).tolist() == [6.0, 24.0]
    with pytest.raises(ValueError, match="out_axes is None"):
        weft.vmap(lambda x: 2 * x, out_axes=None)(jnp.arange(3.0))


def test_both_halves_of_a_derivative_are_jitted():
    calls = []
    f = lambda x: calls.append(1) or jnp.sin(x)
    for jitted, count in ((True, 1), (False, 3)):
        fwd, bwd = weft.fwd_and_bwd(f, 0, jitted=jitted)
        calls.clear()
        for x in (0.0, 1.0, 2.0):
            _, pull = fwd(x)
            assert abs(float(bwd(pull, 1.0)) - float(jnp.cos(x))) < 1e-6
        assert len(calls) == count


def test_frequencies_are_made_on_a_device():
    for make in (jnp.fft.fftfreq, jnp.fft.rfftfreq):
        assert make(4, device=weft.devices()[0]).committed and not make(4).committed


def test_gathers_from_sparse_arrays_have_no_mode():
    rows = weft.lax.GatherDimensionNumbers((1,), (0,), (0,))
    with pytest.raises(NotImplementedError, match="clips indices"):
        sparse.bcoo_gather(sparse.eye(3), jnp.array([[2]]), rows, (1, 3), mode="fill")


def test_there_is_one_debugger():
    with pytest.raises(ValueError, match="only debugger"):
        weft.debug.breakpoint(backend="web")
