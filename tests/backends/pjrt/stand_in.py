"""A PJRT plugin made of Python functions: a table of callbacks with buffers, events and errors.

Its compiler runs StableHLO operation by operation (``interpreter.py``), so that the whole client is
tested on every machine. What a plugin may lack, refuse or be late with is switched by attributes.
"""

import ctypes
import re
import weakref
from math import prod

import numpy as np

from tests.backends.pjrt import interpreter
from weft.backends.pjrt import header
from weft.backends.pjrt.api import Api, Named, bytes_at, named_values, pointers
from weft.backends.pjrt.header import ARGS, ERROR_CODES, FUNCTIONS, NUMBERS
from weft.backends.pjrt.proto import fields

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
MAGIC = b"stand-in executable\0"
MOST = len(FUNCTIONS)
NAMES = {number: name for name, number in header.TYPES.items()}


class Fail(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Event:
    def __init__(self, ready=True, error=None):
        self.ready, self.error = ready, error


class Buffer:
    def __init__(self, value, device, event=None):
        self.value, self.device, self.event = value, device, event or Event()
        self.references, self.done = 0, None

    @property
    def nbytes(self):
        return 0 if self.value is None else self.value.nbytes


class Executable:
    def __init__(self, text, devices):
        self.text, self.module, self.devices = text, interpreter.Module(text), devices


class StandIn:
    """A plugin with some devices."""

    def __init__(self, count=4, version=(0, 90), functions=MOST, missing=(), platform="stand_in"):
        self.platform, self.tiled = platform, platform == "stand_in"
        self.count, self.version, self.missing = count, version, set(missing)
        self.objects, self.kept, self.options = {}, [], None
        self.calls, self.refuse, self.late = [], {}, False
        self.next = 16
        size = header.TABLE_HEAD + 8 * functions
        self.table = (ctypes.c_uint64 * (size // 8))()
        self.table[0] = size
        self.table[2] = 24
        (ctypes.c_int * 2).from_buffer(self.table, 32)[:] = version
        for name in ARGS:
            if name not in self.missing and NUMBERS[name] < functions:
                function = CALLBACK(self._entry(name))
                self.kept.append(function)
                at = header.TABLE_HEAD // 8 + NUMBERS[name]
                self.table[at] = ctypes.cast(function, ctypes.c_void_p).value
        self.devices = [self.new(f"device {i}") for i in range(count)]

    def open(self, name="stand_in"):
        api = Api(ctypes.addressof(self.table), name, self)
        api.call("Plugin_Initialize")
        return api

    # --- objects ----------------------------------------------------------------------------------

    def new(self, thing):
        self.next += 8
        self.objects[self.next] = thing
        return self.next

    def get(self, handle):
        if handle not in self.objects:
            raise Fail("INTERNAL", f"no object {handle}")
        return self.objects[handle]

    def live(self, kind):
        """How many objects of a kind there are."""
        return sum(isinstance(x, kind) for x in self.objects.values())

    def hold(self, data):
        held = ctypes.create_string_buffer(data, len(data)) if isinstance(data, bytes) else data
        self.kept.append(held)
        return ctypes.addressof(held)

    def list_of(self, handles):
        return self.hold((ctypes.c_size_t * max(len(handles), 1))(*handles))

    def _entry(self, name):
        plugin = weakref.ref(self)

        def entry(address):
            return plugin()._called(name, address)

        return entry

    def _called(self, name, address):
        self.calls.append(name)
        try:
            kind = ARGS[name]
            size = ctypes.c_size_t.from_address(address).value
            if size < min(kind.SIZE, 24):
                raise Fail("INVALID_ARGUMENT", f"a struct of {size} bytes for {name}")
            if name in self.refuse:
                raise Fail(*self.refuse[name])
            getattr(self, name)(kind.from_address(address))
        except Fail as error:
            return self.new(error)
        except Exception as error:
            return self.new(Fail("INTERNAL", f"{type(error).__name__}: {error}"))
        return None

    def _text(self, args, field, text):
        data = text.encode()
        setattr(args, field, self.hold(data))
        setattr(args, f"{field}_size", len(data))

    def _named(self, args, values, field="attributes"):
        named = Named(values)
        self.kept.append(named)
        setattr(args, field, named.address)
        setattr(args, f"num_{field}", named.count)

    # --- errors and events ------------------------------------------------------------------------

    def Error_Message(self, args):
        self._text(args, "message", str(self.get(args.error)))

    def Error_GetCode(self, args):
        args.code = ERROR_CODES.index(self.get(args.error).code)

    def Error_Destroy(self, args):
        del self.objects[args.error]

    def Plugin_Initialize(self, args):
        pass

    def Plugin_Attributes(self, args):
        self._named(args, {"xla_version": 2})

    def Event_Destroy(self, args):
        del self.objects[args.event]

    def Event_IsReady(self, args):
        args.is_ready = self.get(args.event).ready

    def Event_Await(self, args):
        event = self.get(args.event)
        event.ready = True
        if event.error is not None:
            raise event.error

    Event_Error = Event_Await

    # --- clients and devices ----------------------------------------------------------------------

    def Client_Create(self, args):
        self.options = named_values(args.create_options, args.num_options)
        args.client = self.new("client")

    def Client_Destroy(self, args):
        del self.objects[args.client]

    def Client_PlatformName(self, args):
        self._text(args, "platform_name", self.platform)

    def Client_PlatformVersion(self, args):
        self._text(args, "platform_version", "stand-in 1")

    def Client_ProcessIndex(self, args):
        args.process_index = 0

    def Client_Devices(self, args):
        args.devices, args.num_devices = self.list_of(self.devices), self.count

    def Client_AddressableDevices(self, args):
        args.addressable_devices = self.list_of(self.devices)
        args.num_addressable_devices = self.count

    def Device_GetDescription(self, args):
        args.device_description = args.device

    def DeviceDescription_Id(self, args):
        args.id = int(self.get(args.device_description).split()[1])

    def DeviceDescription_ProcessIndex(self, args):
        args.process_index = 0

    def DeviceDescription_Kind(self, args):
        self._text(args, "device_kind", "abacus")

    def DeviceDescription_ToString(self, args):
        self._text(args, "to_string", self.get(args.device_description))

    def DeviceDescription_Attributes(self, args):
        number = int(self.get(args.device_description).split()[1])
        self._named(args, {"coords": [number % 2, number // 2, 0], "core_on_chip": 0, "beads": 0.5})

    def Device_LocalHardwareId(self, args):
        args.local_hardware_id = int(self.get(args.device).split()[1])

    def Device_MemoryStats(self, args):
        own = [
            b for b in self.objects.values() if isinstance(b, Buffer) and b.device == args.device
        ]
        args.bytes_in_use = sum(b.nbytes for b in own)
        args.bytes_limit, args.bytes_limit_is_set = 1 << 30, True

    # --- buffers ----------------------------------------------------------------------------------

    def Client_BufferFromHostBuffer(self, args):
        shape = (
            list((ctypes.c_int64 * args.num_dims).from_address(args.dims)) if args.num_dims else []
        )
        dtype = interpreter.dtype_of(interpreter.ELEMENTS[NAMES[args.type]])
        size = prod(shape) * dtype.itemsize
        value = np.frombuffer(bytes_at(args.data, size), dtype).reshape(shape)
        args.buffer = self.new(Buffer(value, args.device))
        args.done_with_host_buffer = self.new(Event())

    def Buffer_Destroy(self, args):
        buffer = self.objects.pop(args.buffer)
        if buffer.references:
            raise Fail("INTERNAL", "the buffer is lent")
        if buffer.done is not None:
            buffer.done()

    def Client_CreateViewOfDeviceBuffer(self, args):
        address, dtype = (
            args.device_buffer_ptr,
            interpreter.dtype_of(interpreter.ELEMENTS[NAMES[args.element_type]]),
        )
        if address % 8:
            raise Fail("INVALID_ARGUMENT", "memory must be aligned to 8 bytes")
        shape = list((ctypes.c_int64 * args.num_dims).from_address(args.dims))
        data = (ctypes.c_char * (prod(shape) * dtype.itemsize)).from_address(address)
        made = Buffer(np.frombuffer(data, dtype).reshape(shape), args.device)
        done, given = args.on_delete_callback, args.on_delete_callback_arg
        made.done = lambda: RELEASE(done)(address, given)
        args.buffer = self.new(made)

    def Buffer_IncreaseExternalReferenceCount(self, args):
        self._alive(args.buffer).references += 1

    def Buffer_DecreaseExternalReferenceCount(self, args):
        self._alive(args.buffer).references -= 1

    def _lent(self, handle):
        buffer = self._alive(handle)
        if not buffer.references:
            raise Fail("FAILED_PRECONDITION", "the buffer has no external references")
        return buffer.value.ctypes.data

    def Buffer_OpaqueDeviceMemoryDataPointer(self, args):
        args.device_memory_ptr = self._lent(args.buffer)

    def Buffer_UnsafePointer(self, args):
        args.buffer_pointer = self._alive(args.buffer).value.ctypes.data

    def _alive(self, handle):
        buffer = self.get(handle)
        if buffer.value is None:
            raise Fail("INVALID_ARGUMENT", "the buffer has been donated or deleted")
        return buffer

    def Buffer_ElementType(self, args):
        args.type = header.TYPES[self._alive(args.buffer).value.dtype.name]

    def Buffer_Dimensions(self, args):
        shape = self._alive(args.buffer).value.shape
        args.dims = self.hold((ctypes.c_int64 * max(len(shape), 1))(*shape))
        args.num_dims = len(shape)

    def Buffer_OnDeviceSizeInBytes(self, args):
        args.on_device_size_in_bytes = -(-self._alive(args.buffer).nbytes // 64) * 64

    def Buffer_GetMemoryLayout(self, args):
        rank = self._alive(args.buffer).value.ndim
        order = (ctypes.c_int64 * max(rank, 1))(*reversed(range(rank)))
        args.minor_to_major, args.minor_to_major_size = self.hold(order), rank
        args.tile_dims = self.hold((ctypes.c_int64 * 2)(8, 128))
        args.tile_dim_sizes, args.num_tiles = self.list_of([2]), int(self.tiled)

    def Buffer_ReadyEvent(self, args):
        args.event = self.new(self.get(args.buffer).event)

    def Buffer_CopyToDevice(self, args):
        buffer = self._alive(args.buffer)
        if buffer.device == args.dst_device:
            raise Fail("INVALID_ARGUMENT", "the buffer is there already")
        args.dst_buffer = self.new(Buffer(buffer.value, args.dst_device))

    def Buffer_ToHostBuffer(self, args):
        buffer = self._alive(args.src)
        layout = header.Layout.from_address(args.host_layout)
        order = (ctypes.c_int64 * layout.minor_to_major_size).from_address(layout.minor_to_major)
        if list(order) != list(reversed(range(buffer.value.ndim))):
            raise Fail("UNIMPLEMENTED", "other layouts than row-major")
        if buffer.event.error is not None:
            args.event = self.new(buffer.event)
            return
        data = np.ascontiguousarray(buffer.value).tobytes()
        if args.dst_size < len(data):
            raise Fail("INVALID_ARGUMENT", f"{args.dst_size} bytes for {len(data)}")
        ctypes.memmove(args.dst, data, len(data))
        args.event = self.new(Event(not self.late))

    # --- programs ---------------------------------------------------------------------------------

    def _compiled(self, args):
        program = header.Program.from_address(args.program)
        if bytes_at(program.format, program.format_size) != b"mlir":
            raise Fail("INVALID_ARGUMENT", "no MLIR")
        text = bytes_at(program.code, program.code_size).decode()
        options = bytes_at(args.compile_options, args.compile_options_size)
        build = next(value for field, value in fields(options) if field == 3)
        counts = dict(fields(build))
        try:
            made = Executable(text, devices_in(build))
        except interpreter.Bad as error:
            raise Fail("INVALID_ARGUMENT", str(error)) from None
        if made.module.partitions != counts[5]:
            raise Fail("INVALID_ARGUMENT", f"{made.module.partitions} and {counts[5]} partitions")
        return made

    def Client_Compile(self, args):
        args.executable = self.new(self._compiled(args))

    def Compile(self, args):
        self.get(args.topology)
        args.executable = self.new(self._compiled(args))

    def LoadedExecutable_GetExecutable(self, args):
        args.executable = self.new(self.get(args.loaded_executable))

    def LoadedExecutable_Destroy(self, args):
        del self.objects[args.executable]

    Executable_Destroy = LoadedExecutable_Destroy

    def Executable_Name(self, args):
        self._text(args, "executable_name", re.match(r"module @(\w+)", self.text(args))[1])

    def text(self, args):
        return self.get(args.executable).text

    def Executable_NumOutputs(self, args):
        args.num_outputs = len(self.get(args.executable).module.gives)

    def Executable_SizeOfGeneratedCodeInBytes(self, args):
        args.size_in_bytes = len(self.text(args))

    def Executable_GetCostAnalysis(self, args):
        lines = re.findall(r'"stablehlo\.', self.text(args))
        values = {"flops": float(len(lines)), "bytes accessed": 64.0, "optimal_seconds": 0.5}
        self._named(args, values, "properties")

    def Executable_GetCompiledMemoryStats(self, args):
        module = self.get(args.executable).module
        size = lambda rows: sum(prod(r["type"][0]) * r["type"][1].itemsize for r in rows)
        args.argument_size_in_bytes = size(module.takes)
        args.output_size_in_bytes = size(module.gives)
        args.alias_size_in_bytes = size([r for r in module.takes if r["alias"] is not None])
        args.temp_size_in_bytes = 128

    def Executable_OptimizedProgram(self, args):
        program, data = header.Program.from_address(args.program), self.text(args).encode()
        program.format, program.format_size = self.hold(b"mlir"), 4
        program.code_size = len(data)
        if program.code:
            ctypes.memmove(program.code, data, len(data))

    def Executable_Serialize(self, args):
        made = self.get(args.executable)
        count = len(made.devices).to_bytes(1, "little")
        data = MAGIC + count + bytes(made.devices) + made.text.encode()
        args.serialized_bytes, args.serialized_bytes_size = self.hold(data), len(data)

    def Executable_DeserializeAndLoad(self, args):
        data = bytes_at(args.serialized_executable, args.serialized_executable_size)
        if not data.startswith(MAGIC):
            raise Fail("INVALID_ARGUMENT", "no executable of this plugin")
        rest = data[len(MAGIC) :]
        devices = list(rest[1 : 1 + rest[0]])
        args.loaded_executable = self.new(Executable(rest[1 + rest[0] :].decode(), devices))

    def LoadedExecutable_Execute(self, args):
        made = self.get(args.executable)
        module, count, parts = made.module, args.num_devices, made.module.partitions
        own = [k for k, d in enumerate(made.devices) if self.is_own(d)]
        if count != len(own) or args.num_args != len(module.takes):
            raise Fail("INVALID_ARGUMENT", f"{args.num_args} arguments on {count} devices")
        options = header.ExecuteOptions.from_address(args.options)
        held = options.non_donatable_input_indices
        number = options.num_non_donatable_input_indices
        kept = list((ctypes.c_int64 * number).from_address(held)) if held else []
        rows = [pointers(p, args.num_args) for p in pointers(args.argument_lists, count)]
        given = [[self._alive(h) for h in row] for row in rows]
        for k, row in zip(own, given, strict=True):
            for i, (buffer, taken) in enumerate(zip(row, module.takes, strict=True)):
                shape = shard_shape(taken, parts)
                if buffer.value.shape != shape or buffer.value.dtype != taken["type"][1]:
                    raise Fail(
                        "INVALID_ARGUMENT", f"argument {i} is {buffer.value.shape}, not {shape}"
                    )
                if buffer.device != self.devices[made.devices[k]]:
                    raise Fail("INVALID_ARGUMENT", f"argument {i} is on another device")
        error = self.refuse.get("run")
        values = [[buffer.value for buffer in row] for row in given]
        everyone = self.exchanged(dict(zip(own, values, strict=True)), parts)
        outs = self._results(module, everyone, parts) if error is None else None
        event = Event(not self.late, None if error is None else Fail(*error))
        for i, taken in enumerate(module.takes):
            if taken["alias"] is not None and i not in kept:
                for row in given:
                    row[i].value = None
        for k, out in enumerate(pointers(args.output_lists, count)):
            row = (ctypes.c_size_t * len(module.gives)).from_address(out)
            for i, given_out in enumerate(module.gives):
                value = outs[i][own[k]] if outs is not None else np.zeros(*given_out["type"])
                row[i] = self.new(Buffer(value, self.devices[made.devices[own[k]]], event))

    def is_own(self, number):
        """Whether a device is this process's."""
        return True

    def exchanged(self, rows, parts):
        """The arguments of all partitions, from those of this process by their numbers."""
        return [rows[k] for k in range(parts)]

    def _results(self, module, given, count):
        whole = []
        for i, taken in enumerate(module.takes):
            value = np.empty(*taken["type"])
            for row, at in zip(given, interpreter.places(taken["sharding"], value.shape, count)):
                value[at] = row[i]
            whole.append(value)
        found = module.run(whole)
        made = []
        for value, out in zip(found, module.gives, strict=True):
            if isinstance(value, interpreter.Shards):
                raise Fail("INTERNAL", "a result in parts")
            at = interpreter.places(out["sharding"], out["type"][0], count)
            made.append([np.array(value)[place] for place in at])
        return made

    # --- topologies -------------------------------------------------------------------------------

    def TopologyDescription_Create(self, args):
        name = bytes_at(args.topology_name, args.topology_name_size).decode()
        found = re.match(r"box:(\d+)x(\d+)$", name)
        if found is None:
            raise Fail("INVALID_ARGUMENT", f"no topology {name!r}; write box:2x2")
        args.topology = self.new(("topology", int(found[1]) * int(found[2])))

    def TopologyDescription_Destroy(self, args):
        del self.objects[args.topology]

    def TopologyDescription_PlatformName(self, args):
        self._text(args, "platform_name", "stand_in")

    def TopologyDescription_PlatformVersion(self, args):
        self._text(args, "platform_version", "stand-in 1")

    def TopologyDescription_GetDeviceDescriptions(self, args):
        count = self.get(args.topology)[1]
        handles = [self.new(f"device {i}") for i in range(count)]
        args.descriptions, args.num_descriptions = self.list_of(handles), count

    def TopologyDescription_Attributes(self, args):
        self._named(args, {"chips": self.get(args.topology)[1]})


def shard_shape(taken, count):
    """The shape of an argument's part on one device."""
    shape = taken["type"][0]
    at = interpreter.places(taken["sharding"], shape, count)[0]
    return tuple(len(range(*s.indices(n))) for s, n in zip(at, shape, strict=True))


def devices_in(build):
    """The devices that compile options assign partitions to."""
    assigned = next(value for field, value in fields(build) if field == 9)
    found = []
    for field, value in fields(assigned):
        if field == 3:
            found += [int(n) for _, packed in fields(value) for n in packed]
    return found
