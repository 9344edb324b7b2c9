"""FlaxFormer's T5 1.1 from its own gin file, on recorded parameters; prints what it gives as JSON.

Run as `python -m weft.as_jax flaxformer_program.py FOLDER RECORD`, or with JAX without `-m`.
"""

import json
import sys
import time

import gin
import jax
import jax.numpy as jnp
import numpy as np

SIZES = {
    "NUM_ENCODER_LAYERS": 2,
    "NUM_DECODER_LAYERS": 2,
    "NUM_HEADS": 4,
    "HEAD_DIM": 16,
    "EMBED_DIM": 64,
    "MLP_DIM": 128,
    "NUM_EMBEDDINGS": 256,
    "ACTIVATION_DTYPE": "'float32'",
}


def nested(record, prefix):
    tree = {}
    for name in record.files:
        if name.startswith(prefix):
            *outer, last = name.removeprefix(prefix).split("/")
            place = tree
            for part in outer:
                place = place.setdefault(part, {})
            place[last] = jnp.asarray(record[name])
    return tree


def main(folder: str, path: str) -> None:
    gin.parse_config_files_and_bindings(
        [f"{folder}/flaxformer/t5x/configs/t5/architectures/t5_1_1_flaxformer.gin"],
        [f"{name} = {value}" for name, value in SIZES.items()],
    )
    model = gin.query_parameter("%ARCHITECTURE").scoped_configurable_fn()
    record = np.load(path)
    params, norms = nested(record, "params/"), nested(record, "grad_norm/")
    enc, dec = jnp.asarray(record["enc"]), jnp.asarray(record["dec"])

    def loss(params):
        logits = model.apply({"params": params}, enc, dec, dec, enable_dropout=False)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), dec[..., None], axis=-1)
        return -jnp.mean(chosen), logits

    start = time.perf_counter()
    step = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (value, logits), grads = jax.block_until_ready(step(params))
    seconds = time.perf_counter() - start
    fault = jax.tree.map(lambda g, n: float(abs(jnp.linalg.norm(g.ravel()) - n) / n), grads, norms)
    made = jax.eval_shape(
        lambda: model.init(jax.random.key(0), enc, dec, dec, enable_dropout=False)
    )
    given = {
        "module": jnp.__name__,
        "same_names": jax.tree.map(jnp.shape, made["params"]) == jax.tree.map(jnp.shape, params),
        "loss": float(value),
        "recorded_loss": float(record["loss"]),
        "logits": float(jnp.max(jnp.abs(logits - record["logits"]))),
        "gradients": max(jax.tree.leaves(fault)),
        "first_step_s": seconds,
    }
    print(json.dumps(given))


if __name__ == "__main__":
    main(*sys.argv[1:])
