"""A stand-in whose devices are those of several processes, which meet by the store they are given.

`python -m tests.backends.pjrt.joined PLATFORM PORT COUNT NUMBER` is one process of a test.
"""

import ctypes
import pickle
import sys

import numpy as np

import weft
import weft.numpy as jnp
from tests.backends.pjrt.stand_in import ERROR_CODES, Fail, StandIn
from weft import lax, linen, random
from weft.backends.pjrt import header, plugins
from weft.backends.pjrt.api import bytes_at, named_values
from weft.sharding import Mesh, NamedSharding
from weft.sharding import PartitionSpec as P

CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
WAIT_MS = 60_000


class Joined(StandIn):
    """Two devices in each process."""

    each = 2

    def Client_Create(self, args):
        self.options = named_values(args.create_options, args.num_options)
        self.node, nodes = self.options["node_id"], self.options["num_nodes"]
        names = ("kv_get_callback", "kv_put_callback", "kv_try_get_callback")
        self.store = {name: CALL(getattr(args, name)) for name in names}
        self.error = ERROR(self._told)
        self.error_place = ctypes.c_void_p(ctypes.cast(self.error, ctypes.c_void_p).value)
        self.runs = 0
        self.put(b"devices/%d" % self.node, b"%d" % self.each)
        counts = [int(self.wait(b"devices/%d" % k)) for k in range(nodes)]
        self.owner = [k for k, count in enumerate(counts) for _ in range(count)]
        self.devices = [self.new(f"device {i}") for i in range(len(self.owner))]
        args.client = self.new("client")

    # --- the store --------------------------------------------------------------------------------

    def _told(self, code, message, size):
        return self.new(Fail(ERROR_CODES[code], bytes_at(message, size).decode()))

    def _asked(self, name, kind, **given):
        held = {k: ctypes.create_string_buffer(v, max(len(v), 1)) for k, v in given.items()}
        args = kind(struct_size=kind.SIZE, callback_error=ctypes.addressof(self.error_place))
        for field, value in given.items():
            setattr(args, field, ctypes.addressof(held[field]))
            setattr(args, f"{field}_size", len(value))
        if hasattr(args, "timeout_in_ms"):
            args.timeout_in_ms = WAIT_MS
        error = self.store[name](ctypes.addressof(args))
        if error:
            raise self.objects.pop(error)
        return args

    def _value(self, args):
        found = bytes_at(args.value, args.value_size)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(args.value_deleter_callback)(args.value)
        return found

    def put(self, key, value):
        self._asked("kv_put_callback", header.PutArgs, key=key, value=value)

    def wait(self, key):
        return self._value(self._asked("kv_get_callback", header.GetArgs, key=key))

    def look(self, key):
        return self._value(self._asked("kv_try_get_callback", header.TryGetArgs, key=key))

    # --- devices and programs ---------------------------------------------------------------------

    def Client_Devices(self, args):
        args.devices, args.num_devices = self.list_of(self.devices), len(self.devices)

    def Client_AddressableDevices(self, args):
        own = [d for i, d in enumerate(self.devices) if self.is_own(i)]
        args.addressable_devices = self.list_of(own)
        args.num_addressable_devices = len(own)

    def DeviceDescription_ProcessIndex(self, args):
        number = int(self.get(args.device_description).split()[1])
        args.process_index = self.owner[number]

    def is_own(self, number):
        return self.owner[number] == self.node

    def exchanged(self, rows, parts):
        if len(rows) == parts:
            return [rows[k] for k in range(parts)]
        self.runs += 1
        for k, row in rows.items():
            self.put(b"run/%d/%d" % (self.runs, k), pickle.dumps(row))
        found = dict(rows)
        for k in range(parts):
            if k not in found:
                found[k] = pickle.loads(self.wait(b"run/%d/%d" % (self.runs, k)))
        return [found[k] for k in range(parts)]


def join(platform, port, count, number):
    """Be one of several processes, with the devices of a platform."""
    made = Joined()
    plugins.register("joined", open=lambda: made.open("joined"))
    weft.config.update("jax_platforms", platform)
    weft.distributed.initialize(f"127.0.0.1:{port}", count, number, initialization_timeout=60)
    every = weft.devices()
    assert [d.process_index for d in every] == [i // 2 for i in range(2 * count)], every
    assert [d.id for d in weft.local_devices()] == [2 * number, 2 * number + 1]
    assert weft.process_index() == number and weft.process_count() == count
    if platform == "joined":
        look_at_store(made, count, number)
    return every


def look_at_store(made, count, number):
    assert made.options == {"node_id": number, "num_nodes": count}
    made.put(b"mine/%d" % number, b"x")
    assert made.look(b"mine/%d" % number) == b"x"
    try:
        made.look(b"nobody")
    except Fail as error:
        assert error.code == "NOT_FOUND", error.code
    else:
        raise AssertionError("a value of nobody")


def main(platform, port, count, number):
    """What a process does; the tests read the line that it prints."""
    count, number = int(count), int(number)
    every = join(platform, port, count, number)
    mesh = Mesh(np.array(every).reshape(count, 2), ("a", "b"))
    whole = np.arange(64.0, dtype="float32").reshape(8, 8)
    x = weft.device_put(whole, NamedSharding(mesh, P("a", "b")))
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), whole[shard.index])
        assert shard.data.devices() == {shard.device}

    # a program that XLA divides, with gradients, and results that all processes have
    def loss(w, x):
        return (jnp.tanh(x @ w) ** 2).mean()

    w = weft.device_put(np.eye(8, dtype="float32"), NamedSharding(mesh, P(None, "b")))
    value, grad = weft.jit(weft.value_and_grad(loss))(w, x)
    wanted = weft.value_and_grad(loss)(np.eye(8, dtype="float32"), whole)
    whole_again = weft.jit(lambda g: g, out_shardings=NamedSharding(mesh, P()))
    np.testing.assert_allclose(float(value), float(wanted[0]), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(whole_again(grad)), wanted[1], rtol=1e-4, atol=1e-6)
    assert grad.devices() == set(every)

    # collectives by hand; operations outside jit; donation; data of each process
    total = weft.shard_map(
        lambda x: lax.psum(x, ("a", "b")), mesh=mesh, in_specs=P("a", "b"), out_specs=P()
    )(x)
    np.testing.assert_allclose(
        np.asarray(total), whole.reshape(count, 8 // count, 2, 4).sum((0, 2)), rtol=1e-6
    )
    double = x + x
    np.testing.assert_array_equal(np.asarray(whole_again(double)), 2 * whole)
    step = weft.jit(lambda x: x * 3, donate_argnums=0)
    tripled = step(double)
    assert double.is_deleted()
    np.testing.assert_array_equal(np.asarray(whole_again(tripled)), 6 * whole)
    own = np.full((2, 3), number, "float32")
    joined = weft.make_array_from_process_local_data(NamedSharding(mesh, P("a")), own)
    assert joined.shape == (2 * count, 3) and float(joined.sum()) == 6 * sum(range(count))
    moved = weft.device_put(x, NamedSharding(mesh, P("b")))
    np.testing.assert_array_equal(np.asarray(whole_again(moved)), whole)

    # a model, its parameters on all devices, its batch divided
    model = linen.Dense(2)
    batch = weft.device_put(whole, NamedSharding(mesh, P("a")))
    params = weft.device_put(model.init(random.key(0), whole), NamedSharding(mesh, P()))
    grads = weft.jit(weft.grad(lambda p, x: (model.apply(p, x) ** 2).mean()))(params, batch)
    kernel = grads["params"]["kernel"]
    assert kernel.is_fully_replicated and np.isfinite(np.asarray(kernel)).all()

    # what is this process's alone stays here
    here = weft.jit(lambda x: x * 2)(jnp.ones(3))
    assert here.devices() == {weft.local_devices()[0]} and here.tolist() == [2] * 3
    weft.distributed.shutdown()
    print(f"process {number}: all right", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
