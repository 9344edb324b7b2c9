"""Records what FlaxFormer's T5 1.0 gives, into data/t5_1_0_tiny.npz.

Run `python -m tests.linen.architectures.record_flaxformer FOLDER` where JAX, flax and gin-config
are installed; FOLDER has the source of FlaxFormer. T5 1.1 was recorded in the same way.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SIZES = {
    "NUM_ENCODER_LAYERS": 2,
    "NUM_DECODER_LAYERS": 2,
    "NUM_HEADS": 2,
    "HEAD_DIM": 4,
    "EMBED_DIM": 8,
    "MLP_DIM": 16,
    "NUM_EMBEDDINGS": 32,
    "ACTIVATION_DTYPE": "'float32'",
}


def main(folder: str) -> None:
    sys.path.insert(0, folder)
    import gin
    import jax
    from flaxformer.components.relative_position_biases import RelativePositionBiases

    gin.parse_config_files_and_bindings(
        [f"{folder}/flaxformer/t5x/configs/t5/architectures/t5_flaxformer.gin"],
        [f"{name} = {value}" for name, value in SIZES.items()],
    )
    model = gin.query_parameter("%ARCHITECTURE").scoped_configurable_fn()
    draw = np.random.RandomState(0)
    enc, dec = draw.randint(2, 32, (2, 9)), draw.randint(2, 32, (2, 6))
    enc[1, 6:], dec[0, 4:] = 0, 0
    inputs = np.concatenate([np.zeros((2, 1), int), dec[:, :-1]], axis=1)
    segments = np.array([[1] * 5 + [2] * 4] * 2), np.array([[1] * 2 + [2] * 4] * 2)
    variables = model.init(jax.random.key(0), enc, inputs, dec, enable_dropout=False)
    params = variables["params"]
    call = lambda *args: model.apply(
        {"params": params}, enc, inputs, dec, *args, enable_dropout=False
    )
    record = {
        "enc": enc,
        "inputs": inputs,
        "dec": dec,
        "encoder_segments": segments[0],
        "decoder_segments": segments[1],
        "logits": call(),
        "packed_logits": call(*segments),
    }
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        record["params/" + "/".join(key.key for key in path)] = leaf
    distances = np.arange(-200, 201, dtype=np.int32)
    for both in (True, False):
        for buckets, limit in ((32, 128), (8, 20)):
            record[f"buckets/{both}/{buckets}/{limit}"] = (
                RelativePositionBiases._relative_position_bucket(distances, both, buckets, limit)
            )
    np.savez_compressed(HERE / "data" / "t5_1_0_tiny.npz", **record)


if __name__ == "__main__":
    main(*sys.argv[1:])
