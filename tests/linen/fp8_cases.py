"""Cases of 8-bit products: layers over three steps, whose scales follow magnitudes, and parts."""

import warnings

from tests.linen.cases import family
from tests.linen.harness import array, total
from tests.linen.module_cases import FAMILIES as FAMILIES


def steps(J, module, *inputs, count=3):
    """Outputs and gradients of steps, each with the scales that the one before left."""
    variables = module.init(J.jax.random.key(0), *inputs)
    found = [variables]
    for i in range(count):

        def loss(variables, inputs, scale=10.0**i):
            out = module.apply(variables, *(scale * x for x in inputs))
            return total(J, out) * scale, out

        grads, out = J.jax.grad(loss, argnums=(0, 1), has_aux=True)(variables, inputs)
        found += [out, grads]
        variables = {**variables, **{k: v for k, v in grads[0].items() if k != "params"}}
    return found


def einsum(J, subscripts, shape, **options):
    class Layer(J.nn.Module):
        @J.nn.compact
        def __call__(self, x):
            kernel = self.param("kernel", J.nn.initializers.normal(), shape, J.dtype)
            product = J.nn.Fp8Einsum(amax_history_length=4)
            return product(subscripts, x, kernel, preferred_element_type=J.dtype, **options)

    return Layer()


@family("fp8")
def fp8():
    for name in ("Fp8DirectDotGeneralOp", "Fp8DotGeneral", "Fp8DotGeneralOp"):

        def dense(J, name=name):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                cls = lambda: getattr(J.nn, name)(amax_history_length=4)
                layer = J.nn.Dense(3, param_dtype=J.dtype, dot_general_cls=cls)
                return steps(J, layer, array(J, 5, 8))

        yield f"Dense({name})", dense

    def nanoo(J):
        cls = lambda: J.nn.NANOOFp8DotGeneralOp(amax_history_length=2)
        layer = J.nn.Dense(3, param_dtype=J.dtype, dot_general_cls=cls)
        return steps(J, layer, array(J, 5, 8))

    yield "Dense(NANOOFp8DotGeneralOp)", nanoo

    def general(J):
        layer = J.nn.DenseGeneral(
            (2, 3), axis=(-2, -1), param_dtype=J.dtype, dot_general_cls=J.nn.Fp8DirectDotGeneralOp
        )
        return steps(J, layer, array(J, 4, 3, 8))

    yield "DenseGeneral(Fp8DirectDotGeneralOp)", general
    yield "Fp8Einsum(bi,io->bo)", lambda J: steps(J, einsum(J, "bi,io->bo", (8, 3)), array(J, 5, 8))
    yield (
        "Fp8Einsum(bhi,hio->bho)",
        lambda J: steps(J, einsum(J, "bhi,hio->bho", (2, 8, 3)), array(J, 5, 2, 8)),
    )

    def attention(J):
        layer = J.nn.MultiHeadDotProductAttention(
            2,
            param_dtype=J.dtype,
            qkv_dot_general_cls=J.nn.Fp8DirectDotGeneralOp,
            out_dot_general_cls=J.nn.Fp8DirectDotGeneralOp,
        )
        return steps(J, layer, array(J, 2, 3, 8), count=1)

    yield "MultiHeadDotProductAttention(Fp8DirectDotGeneralOp)", attention

    def parts(J):
        ops, found = J.nn.fp8_ops, []
        x, scale = 300 * array(J, 40), J.jnp.array([0.7], J.jnp.float32)
        history = J.jnp.abs(array(J, 5, seed=1)).astype(J.jnp.float32)
        for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"):
            dtype = getattr(J.jnp, f"float8_{kind}")
            found.append(ops.quantize(x, dtype, scale, J.dtype).astype(J.jnp.float32))
            found.append(ops.qdq(x, dtype, scale, J.dtype))
            found.append(ops.get_fp8_max(dtype, J.dtype))
            found.append(ops.quantize_dequantize_update(x, dtype, scale, history, J.dtype))
        for amax in (0.0, 3.0, J.jnp.inf, J.jnp.nan):
            found.append(ops.compute_scale(J.jnp.float32(amax), scale, 448.0, margin=1))
        found.append(ops.compute_amax_history(x, history))
        return found

    yield "parts", parts
