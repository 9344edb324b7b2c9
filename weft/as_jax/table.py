"""The names of JAX that weft has elsewhere or under another name, and who needs them.

A line says: module, name, where weft has it (``module:name``, or ``module`` alone if the name is
the same), and the libraries that read it. Public names that weft has under JAX's own path need no
line. A module marked with ``=`` is made of its lines alone, whatever weft has of that path; a line
with ``-`` says that it is there to be imported.
"""

from __future__ import annotations

from typing import NamedTuple

VERSION = "0.10.2"
VERSION_INFO = (0, 10, 2)

LINES = """
jax                          __version__              weft.as_jax.table:VERSION                  chex equinox flax haiku numpyro orbax
jax                          __version_info__         weft.as_jax.table:VERSION_INFO             equinox flax haiku orbax
jax.version                  __version__              weft.as_jax.table:VERSION                  flax
jax.version                  __version_info__         weft.as_jax.table:VERSION_INFO             flax
jaxlib                       __version__              weft.as_jax.table:VERSION                  numpyro orbax
jaxlib.version               __version__              weft.as_jax.table:VERSION                  orbax
jaxlib.xla_client            Device                   weft.runtime.devices                       orbax
jaxlib.xla_client            Array                    weft.core.array                            orbax
jaxlib.xla_client            ArrayImpl                weft.runtime.array                         orbax
jaxlib.xla_client            NamedSharding            weft.sharding                              orbax
jaxlib.xla_client            Sharding                 weft.sharding                              orbax
jaxlib.xla_client            SingleDeviceSharding     weft.sharding                              orbax
jaxlib.xla_client            XlaRuntimeError          weft.errors:JaxRuntimeError                orbax
jaxlib._jax                  Device                   weft.runtime.devices                       gpjax
jaxlib._jax                  PjitFunction             weft.api.jit:JitFunction                        gpjax
jaxlib._jax                  Array                    weft.core.array                            gpjax
jaxlib._jax                  ArrayImpl                weft.runtime.array                         gpjax
jaxlib._jax                  JaxRuntimeError          weft.errors                                gpjax
jaxlib._jax                  NamedSharding            weft.sharding                              gpjax
jaxlib._jax                  PyTreeDef                weft.tree_util                             gpjax
jaxlib._jax                  Sharding                 weft.sharding                              gpjax
jaxlib._jax                  SingleDeviceSharding     weft.sharding                              gpjax
jax.lib                      __version__              weft.as_jax.table:VERSION                  s2fft
jax.ffi                      build_ffi_lowering_function  weft.as_jax.ffi                        s2fft
jax.ffi                      ffi_call                 weft.as_jax.ffi                            s2fft
jax.ffi                      ffi_lowering             weft.as_jax.ffi                            s2fft
jax.ffi                      include_dir              weft.as_jax.ffi                            s2fft
jax.ffi                      pycapsule                weft.as_jax.ffi                            s2fft
jax.ffi                      register_ffi_target      weft.as_jax.ffi                            s2fft
jax.ffi                      register_ffi_target_as_batch_partitionable  weft.as_jax.ffi         s2fft
jax.ffi                      register_ffi_type        weft.as_jax.ffi                            s2fft
jax.ffi                      register_ffi_type_id     weft.as_jax.ffi                            s2fft

jax.experimental             MutableArray             weft.ref:Ref                               flax
jax.experimental.pallas      cdiv                     weft.as_jax.util:ceil_of_ratio             jax_md
jax.experimental.pallas      next_power_of_2          weft.as_jax.util                           jax_md
jax.experimental.shard_map   shard_map                weft.as_jax.one_device                     blackjax flax
jax.experimental.colocated_python=  colocated_python         weft.as_jax.one_device              orbax
jax.experimental.colocated_python   colocated_python_class   weft.as_jax.one_device              orbax
jax.experimental.colocated_python   colocated_cpu_devices    weft.as_jax.one_device              orbax
jax.experimental.colocated_python.func=           -              -                               orbax
jax.experimental.colocated_python.serialization=  DeviceList     weft.as_jax.private:DeviceList  orbax

jax.core=                    AbstractValue            weft.core.avals                            diffrax
jax.core                     Atom                     weft.core.jaxpr                            haiku
jax.core                     ClosedJaxpr              weft.core.jaxpr                            equinox haiku
jax.core                     DebugInfo                weft.extend.core                           kfac_jax
jax.core                     Effects                  weft.extend.core                           kfac_jax
jax.core                     gensym                   weft.as_jax.private                        kfac_jax
jax.core                     Effect                   weft.extend.core                           kfac_jax
jax.core                     JaxprTypeError           weft.extend.core                           kfac_jax
jax.core                     check_jaxpr              weft.extend.core                           kfac_jax
jax.core                     concrete_or_error        weft.extend.core                           kfac_jax
jax.core                     find_top_trace           weft.extend.core                           kfac_jax
jax.core                     get_opaque_trace_state   weft.extend.core                           kfac_jax
jax.core                     jaxprs_in_params         weft.extend.core                           kfac_jax
jax.core                     new_jaxpr_eqn            weft.extend.core                           kfac_jax
jax.core                     no_effects               weft.extend.core                           kfac_jax
jax.core                     DropVar                  weft.core.jaxpr                            haiku
jax.core                     Jaxpr                    weft.core.jaxpr                            equinox haiku
jax.core                     JaxprEqn                 weft.core.jaxpr                            haiku
jax.core                     Literal                  weft.core.jaxpr                            equinox haiku
jax.core                     Primitive                weft.extend.core                           equinox
jax.core                     ShapedArray              weft.core.avals                            equinox flax lineax
jax.core                     Trace                    weft.core.trace                            haiku
jax.core                     Tracer                   weft.core.trace                            chex equinox flax haiku numpyro optax
jax.core                     Value                    weft.core.array:Array                      haiku
jax.core                     Var                      weft.core.jaxpr                            haiku
jax.core                     abstract_token           weft.core.avals                            kfac_jax
jax.extend.core              gensym                   weft.as_jax.private                        kfac_jax
jax.core                     ensure_compile_time_eval weft.api.placement                         equinox
jax.core                     eval_context             weft.as_jax.private                        flax
jax.core                     eval_jaxpr               weft.core.jaxpr                            haiku numpyro
jax.core                     get_aval                 weft.core.trace:typeof                     equinox
jax.core                     max_dim                  weft.as_jax.private                        flax
jax.core                     min_dim                  weft.as_jax.private                        flax
jax.core                     pytype_aval_mappings     weft.core.trace:aval_handlers              tensorflow_probability
jax.core                     valid_jaxtype            weft.extend.core.tracing                   distrax kfac_jax
jax.extend.core              AbstractValue            weft.core.avals                            equinox
jax.extend.core              ShapedArray              weft.core.avals                            equinox
jax.extend.core              Tracer                   weft.core.trace                            equinox
jax.extend.ifrt_programs     ifrt_programs            weft.as_jax.private:Nothing                orbax
jax.interpreters.mlir        emit_python_callback     weft.as_jax.private:refuse_callback        equinox
jax.interpreters.xla         pytype_aval_mappings     weft.core.trace:aval_handlers              tensorflow_probability
jax.interpreters.pxla        global_avals_to_results_handler  weft.as_jax.private:refuse_results orbax

jax._src.ad_util             stop_gradient_p          weft.prims.arithmetic                      lineax
jax._src.api_util            infer_argnums_and_argnames  weft.as_jax.private                     e3nn_jax
jax._src.api_util            flatten_axes             weft.tree.compare                          flax
jax._src.api_util            flatten_fun              weft.api_util                              flax
jax._src.checkify            Error                    weft.experimental.check_errors             flax
jax._src.checkify            JaxException             weft.experimental.check_errors             flax
jax._src.checkify            Out                      weft.as_jax.private:Out                    flax
jax._src.checkify            checkify                 weft.experimental.checkify                 flax
jax._src.checkify            user_checks              weft.experimental.checkify                 flax
jax._src.compiler            backend_compile_and_load weft.as_jax.private                        chex
jax._src.core                Trace                    weft.core.trace                            quax
jax._src.core                full_lower               weft.as_jax.private                        quax
jax._src.core                AbstractValue            weft.core.avals                            flax
jax._src.core                Primitive                weft.extend.core                           flax
jax._src.core                ShapedArray              weft.core.avals                            flax
jax._src.core                Tracer                   weft.core.trace                            flax
jax._src.core                get_aval                 weft.core.trace:typeof                     flax
jax._src.core                physical_aval            weft.as_jax.private                        flax
jax._src.core                trace_state_clean        weft.extend.core.tracing                   numpyro
jax._src.core                typeof                   weft.core.trace                            flax
jax._src.dispatch            wait_for_tokens          weft.api.callbacks:effects_barrier         equinox
jax._src.distributed         global_state             weft.as_jax.one_device                     orbax
jax._src.dtypes              DType                    numpy:dtype                                flax
jax._src.dtypes              ExtendedDType            weft.as_jax.private                        equinox flax
jax._src.dtypes              TypePromotionError       weft.dtypes.lattice                        equinox
jax._src.dtypes              extended                 weft.dtypes                                flax
jax._src.dtypes              finfo                    weft.numpy                                 flax
jax._src.dtypes              supports_inf             weft.dtypes.kinds                          flax
jax._src.flatten_util        ravel_pytree             weft.flatten_util                          blackjax
jax._src.lax.lax             asarray                  weft.numpy                                 aqt
jax._src.lib                 _jax                     jaxlib                                     dynamiqs
jax._src.lib                 version                  weft.as_jax.table:VERSION_INFO             grain
jax._src.lib                 version_str              weft.as_jax.table:VERSION                  grain
jax._src.lib                 xla_client               jaxlib                                     dynamiqs
jax._src.literals            TypedInt                 weft.as_jax.private                        quax
jax._src.literals            TypedFloat               weft.as_jax.private                        quax
jax._src.literals            TypedComplex             weft.as_jax.private                        quax
jax._src.literals            TypedNdArray             weft.as_jax.private                        equinox jaxtyping
jax._src.literals            LiteralArray             weft.as_jax.private:TypedNdArray           equinox
jax._src.state.types         AbstractRef              weft.state.types                           flax
jax._src.traceback_util      _exclude_paths           weft.base.source:_excluded                 equinox
jax._src.traceback_util      api_boundary             weft.base.traceback                        equinox
jax._src.traceback_util      include_frame            weft.as_jax.private                        equinox
jax._src.traceback_util      register_exclusion       weft.base.source                           equinox flax jaxtyping
jax._src.tree_util           _registry                weft.as_jax.private:registry               flax orbax
jax._src.tree_util           flatten_one_level        weft.tree.registry                         flax orbax
jax._src.xla_bridge          _backends                weft.as_jax.private:backends               chex
"""  # noqa: E501


class Module(NamedTuple):
    """What the table says of a module."""

    names: dict[str, str]
    libraries: dict[str, tuple[str, ...]]
    replaces: bool


def read(lines: str) -> dict[str, Module]:
    """The table by module."""
    table: dict[str, Module] = {}
    for line in lines.split("\n"):
        if not line.strip():
            continue
        module, name, where, *libraries = line.split()
        replaces = module.endswith("=")
        module = module.removesuffix("=")
        entry = table.setdefault(module, Module({}, {}, replaces))
        if name == "-":
            continue
        entry.names[name] = where if ":" in where else f"{where}:{name}"
        entry.libraries[name] = tuple(libraries)
    return table


TABLE = read(LINES)
