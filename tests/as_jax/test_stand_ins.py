"""Small packages that read every name of the table, as the libraries do that need it.

A package is written for every library that the table names, with a module for every module that
the library imports from; so a name cannot get lost without a test that says for whom.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.as_jax.table import LINES, TABLE, read

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = sorted({lib for entry in TABLE.values() for libs in entry.libraries.values()
                    for lib in libs})  # fmt: skip

# What the libraries do with the names, beyond having them.
USES = {
    "chex": """
        import os
        from jax._src import xla_bridge
        assert not xla_bridge._backends
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
        assert len(jax.devices()) == 3
        assert len(xla_bridge._backends["cpu"].devices()) == 3
        """,
    "haiku": """
        from jax.extend import core as jex, linear_util as lu
        before = jex.get_opaque_trace_state(convention="nnx")
        assert jax.jit(lambda x: x + (jex.get_opaque_trace_state() == before))(1) == 1
        @lu.transformation
        def doubled(*args):
            out = yield args, {}
            yield 2 * out
        assert doubled(lu.wrap_init(max)).call_wrapped(1, 2) == 4
        class Labelled(jax.core.Tracer):
            def __init__(self, trace, aval):
                super().__init__(trace, aval)
        with jex.take_current_trace() as trace, jex.set_current_trace(trace):
            Labelled(trace, jax.typeof(1.0))
        """,
    "equinox": """
        from jax.interpreters import ad, batching, mlir
        import jax.extend.core as jex
        import jax._src.traceback_util as traceback_util
        traceback_util.register_exclusion(__file__ + ".no")
        p = jex.Primitive("own")
        p.def_impl(lambda x: x * 2)
        p.def_abstract_eval(lambda x: x)
        ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
        ad.primitive_transposes[p] = lambda ct, x: [p.bind(ct)]
        batching.axis_primitive_batchers[p] = (
            lambda size, name, kind, args, dims: (p.bind(*args), dims[0]))
        mlir.register_lowering(p, mlir.lower_fun(lambda x: x * 2, multiple_results=False))
        assert jax.grad(lambda x: p.bind(x))(1.0) == 2.0
        assert jax.jit(jax.vmap(p.bind))(jnp.ones(2)).tolist() == [2.0, 2.0]
        assert jex.mapped_aval(3, 0, jax.typeof(jnp.ones((3, 2)))).shape == (2,)
        assert not isinstance(1.0, jax._src.literals.TypedNdArray)
        """,
    "flax": """
        from jax.api_util import debug_info, flatten_fun
        from jax.extend import linear_util as lu
        from jax.interpreters import partial_eval as pe
        from jax._src.tree_util import _registry
        assert dict in _registry and float not in _registry
        leaves, tree = jax.tree.flatten(((1.0,), {"y": 2.0}))
        f, out_tree = flatten_fun(
            lu.wrap_init(lambda x, y: {"z": x + y},
                         debug_info=debug_info("init", lambda x, y: x, (1.0,), {"y": 2.0})), tree)
        known = pe.PartialVal.known(1.0)
        unknown = pe.PartialVal.unknown(jax.typeof(2.0))
        jaxpr, pvals, consts = pe.trace_to_jaxpr_nounits(f, [known, unknown], instantiate=True)
        assert not pvals[0].is_known() and out_tree().num_leaves == 1
        from jax.experimental.multihost_utils import sync_global_devices
        sync_global_devices("here")
        from jax.experimental import cur_qdd, hijax as hjx
        class Written(jax.extend.core.Effect):
            pass
        hjx.control_flow_allowed_effects.add_type(Written)
        class Variable:
            def __init__(self, value):
                self.value = value
            def cur_qdd(self):
                return jax.typeof(self.value)
        class VariableType(hjx.MutableHiType):
            __hash__ = lambda self: 0
            __eq__ = lambda self, other: isinstance(other, VariableType)
            new_from_loval = lambda self, state, value: Variable(value)
            read_loval = lambda self, state, variable: [variable.value]
            def update_from_loval(self, state, variable, value):
                variable.value = value
        hjx.register_hitype(Variable, lambda variable: VariableType())
        class Get(hjx.HiPrimitive):
            def to_lojax(self, variable):
                return variable.value
        @jax.jit
        def step(variable):
            variable.value = Get("get").bind(variable) + 1
        variable = Variable(jnp.zeros(2))
        step(variable)
        assert variable.value.tolist() == [1.0, 1.0] and cur_qdd(variable).shape == (2,)
        assert hjx.instantiate_zeros(hjx.Zero(jax.typeof(1.0))) == 0
        assert not hjx.is_undefined_primal(1.0)
        hjx.AvalQDD(hjx.ShapedArray((), jnp.float32), None), hjx.AvalMutableQDD
        hjx.AbstractRef, hjx.AbstractValue, hjx.HiType, hjx.VJPHiPrimitive, hjx.TransformedRef
        hjx.aval_method, hjx.aval_property
        """,
    "numpyro": """
        from jax.example_libraries import optimizers, stax
        from jax.extend.core.primitives import call_p, closed_call_p, jit_p
        init, update, get = optimizers.adam(0.1)
        state = update(0, jnp.ones(2), init(jnp.ones(2)))
        assert get(state).shape == (2,)
        closed = jax.make_jaxpr(jnp.sin)(1.0)
        f = lambda x: closed_call_p.bind(x, call_jaxpr=closed)[0]
        assert jnp.allclose(jax.jit(jax.grad(f))(0.0), 1.0)
        assert jax._src.core.trace_state_clean()
        """,
    "quax": """
        import jax._src.core as core
        class Doubling(core.Tracer):
            __slots__ = ("value",)
            def __init__(self, trace, value):
                super().__init__(trace, jax.typeof(value))
                self.value = value
        class Trace(core.Trace):
            __slots__ = ("tag", "parent")
            def __init__(self, parent, tag):
                super().__init__()
                self.parent, self.tag = parent, tag
            def process_primitive(self, primitive, tracers, params):
                values = [t.value if isinstance(t, Doubling) else t for t in tracers]
                with core.set_current_trace(self.parent):
                    out = primitive.bind(*values, **params)
                    return Doubling(self, 2 * out if primitive.name == "sin" else out)
        def doubled(f, x):
            with core.take_current_trace() as parent:
                trace = Trace(parent, core.TraceTag())
                with core.set_current_trace(trace):
                    out = f(Doubling(trace, x))
                return core.full_lower(trace.full_raise(out)).value
        assert jnp.allclose(doubled(lambda x: jnp.sin(x) + 1, 1.0), 2 * jnp.sin(1.0) + 1)
        assert jnp.allclose(jax.jit(lambda x: doubled(jnp.sin, x))(1.0), 2 * jnp.sin(1.0))
        assert Trace(None, core.TraceTag()).is_valid()
        assert issubclass(jax._src.literals.TypedInt, int)
        """,
    "lineax": """
        from jax.interpreters import ad
        from jax._src.ad_util import stop_gradient_p
        ad.primitive_transposes[stop_gradient_p] = lambda ct, x: (ct,)
        assert ad.is_undefined_primal(ad.UndefinedPrimal(jax.typeof(1.0)))
        """,
    "orbax": """
        import jax.monitoring
        from jax.experimental import multihost_utils, pjit
        from jax.experimental.array_serialization import serialization
        jax.monitoring.record_event_duration_secs("/orbax/write", 1.0)
        assert multihost_utils.process_allgather(jnp.ones(2)).shape == (1, 2)
        assert jnp.ones(1).sharding._addressable_device_assignment
        class Manager(serialization.GlobalAsyncCheckpointManager):
            pass
        Manager().wait_until_finished()
        """,
    "tensorflow_probability": """
        import numpy as np
        class Variable(np.ndarray):
            pass
        xla = jax.interpreters.xla
        xla.canonicalize_dtype_handlers[Variable] = xla.canonicalize_dtype_handlers[np.ndarray]
        jax.core.pytype_aval_mappings[Variable] = jax.core.pytype_aval_mappings[np.ndarray]
        assert jnp.sin(np.zeros(2).view(Variable)).tolist() == [0.0, 0.0]
        """,
}


def package(library: str) -> str:
    """The source of a package that reads what a library reads."""
    lines = ["import jax, jax.numpy as jnp", "import jax.interpreters.xla"]
    for module, entry in TABLE.items():
        wanted = [n for n, libs in entry.libraries.items() if library in libs and n in entry.names]
        lines.append(f"import {module}")
        for name in wanted:
            lines.append(f"from {module} import {name} as _read")
            lines.append(f"assert _read is {module}.{name}")
    use = USES.get(library, "")
    indent = len(use) - len(use.lstrip()) - 1 if use else 0
    lines += [line[indent:] for line in use.splitlines()]
    return "\n".join(lines)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_name_a_library_reads_is_there(library, tmp_path):
    (tmp_path / "stand_in.py").write_text(package(library))
    paths = [str(ROOT), str(tmp_path), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    done = subprocess.run(
        [sys.executable, "-m", "weft.as_jax", "-c", "import stand_in"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_lines_say_who_needs_a_name():
    assert all(libs for entry in TABLE.values() for libs in entry.libraries.values())
    assert set(USES) <= set(LIBRARIES)


def test_no_name_stands_there_twice():
    rows = [tuple(line.replace("=", " ").split()[:2]) for line in LINES.split("\n") if line.strip()]
    assert len(rows) == len(set(rows))
    assert read("a.b  x  weft.c  one two")["a.b"].names == {"x": "weft.c:x"}
