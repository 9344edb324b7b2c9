"""A checkpoint of sharded arrays, saved by some processes and restored by others.

``python -m tests.train.sharded_checkpoints save|load FOLDER [mpi]``, alone or under mpiexec, with
four devices in all.
"""

import sys

import numpy as np

import weft
import weft.numpy as jnp
from weft import P, train
from weft.experimental import multihost_utils
from weft.sharding import Mesh, NamedSharding
from weft.train import CheckpointError, CheckpointManager, checkpoint


def values() -> dict:
    """What is saved, on the host."""
    draw = np.random.RandomState(0).standard_normal((8, 12)).astype(np.float32)
    return {"w": draw, "b": np.arange(8, dtype=np.int32), "half": draw.astype(jnp.bfloat16)}


def shardings(turn: int) -> dict:
    """Where it lies: in two ways."""
    mesh = Mesh(np.array(weft.devices()).reshape(2, 2), ("a", "b"))
    specs = [
        {"w": P("a", "b"), "b": P("b"), "half": P(None, ("a", "b"))},
        {"w": P("b"), "b": P(), "half": P(("b", "a"), None)},
    ][turn]
    return {name: NamedSharding(mesh, spec) for name, spec in specs.items()}


def whole(x) -> np.ndarray:
    """All of an array, in every process."""
    gather = lambda x: multihost_utils.process_allgather(x, tiled=True)
    return np.asarray(x if x.is_fully_addressable else gather(x))


def save(manager: CheckpointManager) -> None:
    """Save three steps; the arrays are donated while the thread writes."""
    places = shardings(0)
    tree = {name: weft.device_put(x, places[name]) for name, x in values().items()}
    update = weft.jit(lambda t: {k: x + 1 for k, x in t.items()}, donate_argnums=0)
    for step in range(3):
        manager.save(step, {"arrays": tree, "step": step, "key": weft.random.key(7)})
        tree = update(tree)
    manager.wait()
    assert manager.all_steps() == [1, 2], manager.all_steps()
    watch(manager)
    if weft.process_count() > 1:
        try:
            checkpoint.save(manager.folder + "/one", {"w": 1})
        except CheckpointError as error:
            assert "CheckpointManager" in str(error)
        else:
            raise AssertionError("several processes have written one folder")
        files = manager.manifest().files
        assert len(files) == weft.process_count(), files
        try:
            manager.save(3 + weft.process_index(), {})
        except AssertionError as error:
            assert "different steps" in str(error)
        else:
            raise AssertionError("processes at different steps were not told")


def watch(manager: CheckpointManager) -> None:
    """What is not finite is found in all processes, and saved by them together."""
    places = shardings(0)
    broken = values()["w"]
    broken[3, 7] = np.nan
    state = {"w": weft.device_put(broken, places["w"])}
    try:
        train.NanWatch(manager.folder + "/broken").check(4, state, state=state, batch=[1])
    except train.NonFiniteError as error:
        assert error.names == ("w",) and "1 NaN" in str(error), error
        found = checkpoint.restore(error.path, {"batch": [0], "state": state})
        assert np.array_equal(whole(found["state"]["w"]), broken, equal_nan=True)
    else:
        raise AssertionError("NaN was not found")


def load(manager: CheckpointManager) -> None:
    """Restore into both shardings, another dtype, and whole."""
    for turn in (0, 1):
        places = shardings(turn)
        target = {
            "arrays": {
                name: weft.ShapeDtypeStruct(x.shape, x.dtype, sharding=places[name])
                for name, x in values().items()
            },
            "step": 0,
            "key": weft.random.key(0),
        }
        for step in manager.all_steps():
            found = manager.restore(step, target)
            assert found["step"] == step
            for name, x in found["arrays"].items():
                wanted = values()[name]
                for _ in range(step):
                    wanted = (wanted + 1).astype(wanted.dtype)
                assert x.sharding == places[name] and x.dtype == wanted.dtype
                assert np.array_equal(whole(x), wanted), name
    where = lambda name, shape: shardings(1)[name[7:]] if name.startswith("arrays/") else None
    half = manager.restore(1, dtype=jnp.float16, sharding=where)["arrays"]["w"]
    assert half.dtype == jnp.float16 and half.sharding == shardings(1)["w"]
    assert np.array_equal(whole(half), (values()["w"] + 1).astype(np.float16))
    try:
        manager.restore(9)
    except CheckpointError:
        pass
    else:
        raise AssertionError("there is no step 9")


def main(what: str, folder: str) -> None:
    """Save or load."""
    if "mpi" in sys.argv:
        weft.distributed.initialize()
    with CheckpointManager(folder, keep=2) as manager:
        {"save": save, "load": load}[what](manager)
    print("as it was", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
