"""Library functions whose own formulas mix ranks and dtypes, where users may not."""

SETUP = """
checkify, rnn = module("experimental.checkify"), module("experimental.rnn")
z = jnp.arange(24.0).reshape(4, 6) + 1j
images = {"z": z, "bf16": z.real.astype("bfloat16"), "i32": z.real.astype(int), "f32": z.real}
scale, shift = jnp.array([1.2, 1.1]), jnp.array([0.0, 0.5])
def checked(f, *args): return checkify.checkify(f, errors=checkify.index_checks)(*args)[0].get() is None
x = jnp.arange(12.0).reshape(3, 4)
def lstm():
    w = rnn.init_lstm_weight(random.key(0), 3, 2, 1, False)
    h = jnp.zeros((1, 2, 2))
    return rnn.lstm_ref(jnp.ones((2, 4, 3)), h, h, *rnn.unpack_lstm_weights(w, 3, 2, 1, False),
                        jnp.array([4, 3]), 3, 2, 1, 0.0, False)[0].shape
"""

_EACH = [
    *[
        f"image.scale_and_translate(images[{x!r}], (5, 7), (0, 1), scale, shift, {m!r})"
        for x in ("z", "bf16", "i32", "f32")
        for m in ("linear", "cubic")
    ],
    *[
        f"image.resize(images[{x!r}], (3, 8), {m!r}, antialias={a})"
        for x in ("z", "f32", "i32")
        for m in ("linear", "lanczos3", "cubic-pytorch", "nearest")
        for a in (True, False)
    ],
    "image.scale_and_translate(z.real, (5, 7), (0, 1), scale, shift.astype('bfloat16'), 'linear')",
    "checked(lambda x, i: x[i], x, jnp.array([0, 5]))",
    "checked(lambda x, i: x[:, i], x, jnp.array([0, 1]))",
    "checked(lambda x, i: x[i, i], x, jnp.array([[0, 9]]))",
    "checked(lambda x, i: x.at[i].set(1.0), x, jnp.array([0, 3]))",
    "checked(lambda x, i: x.at[:, i].add(1.0), x, jnp.array(2))",
    "checked(lambda x, i: jax.lax.dynamic_slice(x, (i, i), (2, 2)), x, 2)",
    "checked(lambda x, i: jax.lax.dynamic_update_slice(x, x[:2], (i, 0)), x, 1)",
    "lstm()",
]
_MODES = 'with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"): answer = {}'
PROGRAMS = [_MODES.format(text) for text in _EACH]
