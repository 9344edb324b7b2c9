"""Writes the checkpoints of flax and Orbax that the tests read, into ``tests/train/data``.

Run with Python where flax and Orbax are installed: ``python tests/train/record.py``. Besides the
folder as Orbax writes it there is one whose chunks are not compressed, which needs no zstd.
"""

import json
import shutil
from pathlib import Path

import flax
import flax.training.checkpoints
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts

DATA = Path(__file__).parent / "data"
TREE = {
    "params": {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3, jnp.bfloat16)},
    "opt": (jnp.zeros(2, jnp.int32), [jnp.ones(1)]),
    "step": 3,
    "rate": 1.5,
    "empty": {},
    "none": None,
}


def plain(source: Path, target: Path) -> None:
    """Copy a folder of zarr arrays without compression."""
    shutil.copytree(source, target)
    for header in target.glob("*/.zarray"):
        folder = str(header.parent)
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": folder}}
        array = np.asarray(ts.open(spec).result().read().result())
        (chunk,) = [path for path in header.parent.iterdir() if path != header]
        chunk.write_bytes(array.tobytes())
        header.write_text(json.dumps(json.loads(header.read_text()) | {"compressor": None}))


def database(folder: Path) -> None:
    """An OCDBT database of several levels and generations, without compression."""
    config = {"compression": None, "max_inline_value_bytes": 16, "max_decoded_node_bytes": 400}
    spec = {"driver": "ocdbt", "base": f"file://{folder}/", "config": config}
    store = ts.KvStore.open(spec).result()
    with ts.Transaction() as transaction:
        for number in range(60):
            name = f"layer_{number // 7}/part_{number}"
            store.with_transaction(transaction)[name] = b"%d" % number * (number % 11)
    store["layer_0/part_1"] = b"new"
    store["last"] = bytes(100)


def main() -> None:
    """Write all of them."""
    for name in ("orbax_zarr", "orbax_plain", "orbax_ocdbt", "ocdbt"):
        shutil.rmtree(DATA / name, ignore_errors=True)
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(DATA / "orbax_zarr", TREE)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(DATA / "orbax_ocdbt", {**TREE, "large": jnp.arange(2000.0)})
    for name in ("orbax_zarr", "orbax_ocdbt"):
        for extra in ("_sharding", "_CHECKPOINT_METADATA", "commit_success.txt", "array_metadatas"):
            path = DATA / name / extra
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    plain(DATA / "orbax_zarr", DATA / "orbax_plain")
    database(DATA / "ocdbt")
    flax.config.update("flax_use_orbax_checkpointing", False)
    state = {k: v for k, v in TREE.items() if k not in ("empty", "none")}
    flax.training.checkpoints.save_checkpoint(DATA, state, 7, prefix="flax_", overwrite=True)


if __name__ == "__main__":
    main()
