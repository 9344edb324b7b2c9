"""Programs whose StableHLO is checked: `tests/stablehlo` reads it, XLA runs it.

    python tools/stablehlo_programs.py write FOLDER     with weft
    python tools/stablehlo_programs.py run FOLDER       with JAX: parses, verifies and runs all

Arguments and weft's results lie beside the text; what XLA gives is compared with them. Functions of
symbolic shapes (tests/export) are called at two sizes by a main function of their own; XLA puts its
shapes in place of the dynamic ones before it compiles.
"""

import re
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def _with_notes(x):
    import weft.numpy as jnp
    from weft.experimental.xla_metadata import set_xla_metadata

    with set_xla_metadata(group=1, name='a "b"'):
        y = set_xla_metadata(jnp.sin(x).sum(0), group=2, late=True)
    return y + 1


def programs():
    """Functions and arguments, by name."""
    import weft
    import weft.numpy as jnp
    from weft import lax, nn, random

    x = jnp.linspace(-1.5, 2.0, 12).reshape(3, 4)
    i = jnp.array([2, 0])
    far = jnp.array([7, 0])
    key = random.key(3)
    images = jnp.arange(144.0).reshape(2, 2, 6, 6) / 10
    kernel = jnp.ones((2, 2, 3, 3))
    conv = lax.conv_general_dilated
    return {
        "softmax": (nn.softmax, x),
        "notes": (_with_notes, x),
        "network": (lambda x, w: jnp.tanh(x @ w).sum(0), x, jnp.ones((4, 2))),
        "gradient": (weft.grad(lambda x: jnp.sum(jnp.sin(x) ** 3 * jnp.exp(x))), x),
        "unary": (
            lambda x: [
                jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.sign(x), jnp.cos(x), jnp.tan(x),
                jnp.arctan(x), jnp.sinh(x), jnp.cosh(x), jnp.arcsinh(x), jnp.cbrt(x),
                jnp.log1p(x + 2), jnp.expm1(x), jnp.isfinite(x), lax.logistic(x),
                lax.rsqrt(x + 3), jnp.square(x), lax.exp2(x), jnp.arcsin(x / 4),
                jnp.arctanh(x / 4), jnp.arccosh(x + 4), lax.round(x),
            ],
            x,
        ),
        "special": (
            lambda x: [
                lax.erf(x), lax.erfc(x), lax.erf_inv(x / 4), lax.lgamma(x + 3),
                lax.digamma(x + 3), lax.bessel_i1e(x),
            ],
            x,
        ),
        "binary": (
            lambda x: [
                x + 1, x - x.T.reshape(3, 4), x * 2, x / (x + 5), jnp.power(x + 3, x),
                lax.rem(x, jnp.full_like(x, 0.7)), jnp.maximum(x, 0), jnp.minimum(x, 0),
                jnp.arctan2(x, x + 1), x > 0, x <= 0.5, x == x, x != 0,
                lax.integer_pow(x + 3, -3), lax.integer_pow(x, 5),
            ],
            x,
        ),
        "integers": (
            lambda n: [
                n + 1, n // 2, n % 3, n << 1, n >> 1, n & 3, n | 4, n ^ 1, ~n, lax.clz(n),
                lax.population_count(n), lax.shift_right_logical(n, 1), n.astype(float),
                n.astype(bool), n.astype("uint8"), lax.mulhi(n, n),
            ],
            jnp.arange(-3, 4),
        ),
        "choices": (
            lambda x: [
                jnp.where(x > 0, x, 0.0), jnp.clip(x, -1, 1),
                lax.select_n(jnp.array([0, 2, 1]), *[jnp.arange(3.0) + j for j in range(3)]),
            ],
            x,
        ),
        "movement": (
            lambda x: [
                x.T, x.reshape(2, 6), x[None], jnp.flip(x, 0), x[1:, ::2],
                jnp.concatenate([x, x], 1), jnp.pad(x, ((1, 0), (0, 2))),
                jnp.broadcast_to(x[0], (2, 4)), lax.pad(x, 0.0, ((0, 0, 1), (-1, 0, 0))),
                jnp.arange(5), jnp.split(x, 2, 1), jnp.stack([x, x]), jnp.unstack(x),
                jnp.tile(x, (2, 1)), jnp.repeat(x, 2, 0), jnp.roll(x, 1),
            ],
            x,
        ),
        "reductions": (
            lambda x: [
                x.sum(), x.max(0), x.min(1), x.prod(), (x > 0).any(0), (x > 0).all(),
                jnp.argmax(x, 1), jnp.argmin(x, 0), x.mean(), x.std(),
                lax.reduce(x, 1.0, lambda a, b: a * b, (0,)),
                jnp.argmax(jnp.array([1.0, jnp.nan, 3.0])),
            ],
            x,
        ),
        "cumulative": (
            lambda x: [
                jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 0),
                lax.cummin(x, 1, reverse=True), lax.cumlogsumexp(x, 0),
            ],
            x,
        ),
        "products": (
            lambda x: [
                x @ x.T, jnp.einsum("ij,kj->ik", x, x),
                jnp.einsum("bij,bjk->bik", x[None], x.T[None]),
                jnp.dot(x, x.T, precision="highest"),
            ],
            x,
        ),
        "convolutions": (
            lambda x: [
                conv(x, kernel, (1, 2), "SAME"),
                conv(x, jnp.ones((4, 1, 3, 3)), (1, 1), ((0, 1), (2, 0)), rhs_dilation=(2, 1),
                     feature_group_count=2),
                weft.grad(lambda w: conv(x, w, (2, 2), "VALID").sum())(kernel),
            ],
            images,
        ),
        "windows": (
            lambda x: [
                lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
                lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
                lax.reduce_window(x, 1.0, lax.mul, (2, 1), (1, 1), "VALID"),
            ],
            x,
        ),
        "sorting": (
            lambda x: [
                jnp.sort(x, 1), jnp.argsort(x[:, ::-1], 0), lax.sort((x, -x), num_keys=2),
                lax.top_k(x, 2), jnp.sort(jnp.array([3, 1, 2])), jnp.median(x),
            ],
            x,
        ),
        "indexing": (
            lambda x, i: [
                x[i], x[i, 1], jnp.take(x, i, 0), x.at[i].add(1.0), x.at[i].set(0.0),
                x.at[:, 1].multiply(3.0), x.at[i].max(0.5), x.at[jnp.array([2, 0])].apply(jnp.sin),
                jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
                lax.dynamic_slice(x, (i[0], 1), (2, 2)),
                lax.dynamic_update_slice(x, jnp.zeros((1, 2)), (i[1], 2)),
                x.at[far].get(mode="fill", fill_value=-1.0), x.at[far].set(5.0, mode="drop"),
                x.at[far].add(5.0, mode="clip"),
            ],
            x,
            i,
        ),
        "loops": (
            lambda v: [
                lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * 2.0), (0, v)),
                lax.cond(v[0] > 0, lambda a: a, lambda a: -a, v),
                lax.switch(i[0], [jnp.sin, jnp.cos, jnp.exp], v),
                lax.fori_loop(0, 3, lambda n, c: c + n, v),
                lax.scan(lambda c, a: (c + a, c * a), 0.0, v),
                lax.scan(lambda c, a: (c + a, c * a), jnp.zeros(2), v[:, None] * jnp.ones(2),
                         reverse=True),
                lax.associative_scan(jnp.add, v),
            ],
            jnp.arange(4.0),
        ),
        "calls": (
            lambda x: [
                weft.jit(jnp.sin)(x) + weft.jit(jnp.sin)(x), weft.checkpoint(jnp.cos)(x),
                nn.relu(x), nn.gelu(x), nn.silu(x),
                weft.grad(lambda y: weft.checkpoint(lambda z: jnp.sin(z).sum())(y))(x),
            ],
            x,
        ),
        "random_numbers": (
            lambda k: [
                random.uniform(k, (5,)), random.normal(k, (2, 3)), random.bits(k, (3,), "uint8"),
                random.randint(k, (4,), 0, 10), random.key_data(random.split(k, 3)),
                random.key_data(random.fold_in(k, 7)), random.bernoulli(k, 0.3, (4,)),
                random.permutation(k, 6), random.categorical(k, jnp.zeros(5)),
                weft.vmap(lambda kk: random.uniform(kk, (2,)))(random.split(k, 2)),
                random.key_data(random.key(5)),
            ],
            key,
        ),
        "complex_numbers": (
            lambda x: [
                (x + 1j * x) * (2 - 1j), jnp.abs(x + 1j), jnp.conj(x + 2j), (x * 1j).real,
                jnp.exp(1j * x), jnp.fft.fft(x), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.angle(x + 1j),
            ],
            x,
        ),
        "linear_algebra": (
            lambda a, b: [
                jnp.linalg.cholesky(a),
                weft.scipy.linalg.solve_triangular(a, b, lower=True),
                weft.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), b),
            ],
            jnp.eye(3) * 3 + 0.5,
            jnp.arange(3.0),
        ),
        "narrow_types": (
            lambda x: [
                (x.astype("bfloat16") * 2).astype("float32"), x.astype("float16") + 1,
                x.astype("int8"), x.astype("int32").astype("uint32"),
                lax.bitcast_convert_type(x, "int32"), lax.reduce_precision(x, 8, 4),
            ],
            x,
        ),
        "attention": (
            lambda q: nn.dot_product_attention(q, q, q, is_causal=True),
            jnp.arange(80.0).reshape(2, 5, 2, 4) / 50,
        ),
        "constants": (
            lambda x: x + np.arange(12, dtype="float32").reshape(3, 4) + jnp.arange(4.0),
            x,
        ),
    }  # fmt: skip


def lowered(name):
    """The text of a program."""
    import weft

    fun, *args = programs()[name]
    return weft.jit(fun).lower(*args)


def write(folder):
    """Write text, arguments and results of all programs."""
    import weft

    def numbers(x):
        is_key = weft.dtypes.issubdtype(x.dtype, weft.dtypes.prng_key)
        return np.asarray(weft.random.key_data(x) if is_key else x)

    for name, (fun, *args) in programs().items():
        (folder / f"{name}.mlir").write_text(lowered(name).as_text("stablehlo"))
        ins = {f"in{n}": numbers(x) for n, x in enumerate(weft.tree.leaves(args))}
        outs = weft.tree.leaves(weft.jit(fun)(*args))
        np.savez(
            folder / f"{name}.npz", **ins, **{f"out{n}": numbers(x) for n, x in enumerate(outs)}
        )
    write_symbolic(folder, numbers)


# Products in bfloat16 that XLA does not round before they are converted.
MORE_PRECISE = ("bfloat16",)


def write_symbolic(folder, numbers):
    """The same for functions of symbolic shapes, each at two sizes."""
    import weft
    from tests.export import symbolic_cases
    from tests.export.test_symbolic_law import COMPUTED, SIZES, argument

    asked = symbolic_cases.Asked("weft")
    for name, source, types in COMPUTED:
        fun = weft.jit(asked.function(source))
        try:
            text = fun.lower(*asked.specs(types)).as_text("stablehlo")
        except NotImplementedError:
            continue
        if name in MORE_PRECISE:
            continue
        for number, sizes in enumerate(SIZES[:2]):
            draw = np.random.default_rng(number)
            args = [argument(kind, sizes, draw) for kind in types]
            outs = [numbers(x) for x in weft.tree.leaves(fun(*args))]
            ins = [numbers(np.asarray(x) if np.isscalar(x) else x) for x in args]
            label = f"symbolic {name} {number}"
            (folder / f"{label}.mlir").write_text(_called(text, sizes, ins, len(outs)))
            held = {f"in{n}": x for n, x in enumerate(ins)}
            np.savez(folder / f"{label}.npz", **held, **{f"out{n}": x for n, x in enumerate(outs)})


def _called(text, sizes, args, results):
    """A module with a main function that calls the one of symbolic shapes on known ones."""
    from weft.stablehlo.types import tensor

    head = re.search(r"func.func public @main\((.*)\) -> \((.*)\) \{\n", text)
    pattern = r'(%arg\d+): (tensor<.*?>)(?: \{jax.global_constant = "(\w+)"\})?(?=, %|$)'
    body, given, types, signature = [], [], [], []
    rest = iter(args)
    for name, kind, dimension in re.findall(pattern, head[1]):
        value = name.replace("arg", "v")
        if dimension:
            held = f"dense<{sizes[dimension]}> : tensor<i32>"
            body.append(
                f'{value} = "stablehlo.constant"() <{{value = {held}}}> : () -> tensor<i32>'
            )
        else:
            x = next(rest)
            known = tensor(x.shape, x.dtype)
            signature.append(f"{name}: {known}")
            body.append(f'{value} = "stablehlo.convert"({name}) : ({known}) -> {kind}')
        given.append(value)
        types.append(kind)
    outs = head[2]
    many = results > 1
    body.append(
        f"%r{f':{results}' if many else ''} = func.call @symbolic({', '.join(given)}) :"
        f" ({', '.join(types)}) -> ({outs})"
    )
    back = ", ".join(f"%r#{n}" for n in range(results)) if many else "%r"
    lines = "\n    ".join([*body, f"return {back} : {outs}"])
    main = f"  func.func public @main({', '.join(signature)}) -> ({outs}) {{\n    {lines}\n  }}\n"
    text = text.replace("func.func public @main(", "func.func private @symbolic(")
    at = text.index("{\n") + 2
    return text[:at] + main + text[at:]


def _values(held, kind):
    return [held[f"{kind}{n}"] for n in range(sum(k.startswith(kind) for k in held))]


def run(folder):
    """Parse, verify and run what was written, with XLA; how many programs gave other results."""
    import jax
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from jaxlib import xla_client
    from jaxlib._jax import DeviceList
    from jaxlib._jax.mlir import refine_polymorphic_shapes

    backend = xla_bridge.get_backend("cpu")
    wrong = 0
    for path in sorted(folder.glob("*.mlir")):
        held = np.load(path.with_suffix(".npz"))
        try:
            text = path.read_text()
            with mlir.make_ir_context():
                module = ir.Module.parse(text)
                module.operation.verify()
                if "x?x" in text or "<?x" in text:
                    refined = refine_polymorphic_shapes(mlir.module_to_bytecode(module), True, True)
                    text = str(ir.Module.parse(refined))
            devices = DeviceList(tuple(backend.devices()[:1]))
            options = xla_client.CompileOptions()
            program = backend.compile_and_load(text, devices, options)
            given = [jax.device_put(x) for x in _values(held, "in")]
            found = program.execute_sharded(given).disassemble_into_single_device_arrays()
            for got, expected in zip(found, _values(held, "out"), strict=True):
                assert got[0].dtype == expected.dtype
                np.testing.assert_allclose(got[0], expected, rtol=2e-4, atol=2e-4)
        except Exception as error:
            wrong += 1
            print(f"{path.stem}: {type(error).__name__}: {str(error)[:300]}")
    print(f"{len(list(folder.glob('*.mlir')))} programs, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    where = Path(sys.argv[2])
    where.mkdir(exist_ok=True)
    sys.exit(run(where) if sys.argv[1] == "run" else write(where))
