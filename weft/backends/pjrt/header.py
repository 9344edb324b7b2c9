"""The PJRT C API as data: its functions in the order of the table, and the structs they take.

A field is its name and a letter for its type: p a pointer, z a size, l 64 bits, i 32 bits, b a
boolean. Every struct begins with its size and a list of extensions. Facts of version 0.90; what a
plugin of another version has more or less of is found by sizes.
"""

from __future__ import annotations

import ctypes
from typing import Any

MAJOR, MINOR = 0, 90
# Bytes of the table before its functions: its size, extensions, and the version's own struct.
TABLE_HEAD = 40

FUNCTIONS = """
Error_Destroy Error_Message Error_GetCode Plugin_Initialize Plugin_Attributes Event_Destroy
Event_IsReady Event_Error Event_Await Event_OnReady Client_Create Client_Destroy
Client_PlatformName Client_ProcessIndex Client_PlatformVersion Client_Devices
Client_AddressableDevices Client_LookupDevice Client_LookupAddressableDevice
Client_AddressableMemories Client_Compile Client_DefaultDeviceAssignment
Client_BufferFromHostBuffer DeviceDescription_Id DeviceDescription_ProcessIndex
DeviceDescription_Attributes DeviceDescription_Kind DeviceDescription_DebugString
DeviceDescription_ToString Device_GetDescription Device_IsAddressable Device_LocalHardwareId
Device_AddressableMemories Device_DefaultMemory Device_MemoryStats Memory_Id Memory_Kind
Memory_DebugString Memory_ToString Memory_AddressableByDevices Executable_Destroy Executable_Name
Executable_NumReplicas Executable_NumPartitions Executable_NumOutputs
Executable_SizeOfGeneratedCodeInBytes Executable_GetCostAnalysis Executable_OutputMemoryKinds
Executable_OptimizedProgram Executable_Serialize LoadedExecutable_Destroy
LoadedExecutable_GetExecutable LoadedExecutable_AddressableDevices LoadedExecutable_Delete
LoadedExecutable_IsDeleted LoadedExecutable_Execute Executable_DeserializeAndLoad
LoadedExecutable_Fingerprint Buffer_Destroy Buffer_ElementType Buffer_Dimensions
Buffer_UnpaddedDimensions Buffer_DynamicDimensionIndices Buffer_GetMemoryLayout
Buffer_OnDeviceSizeInBytes Buffer_Device Buffer_Memory Buffer_Delete Buffer_IsDeleted
Buffer_CopyToDevice Buffer_ToHostBuffer Buffer_IsOnCpu Buffer_ReadyEvent Buffer_UnsafePointer
Buffer_IncreaseExternalReferenceCount Buffer_DecreaseExternalReferenceCount
Buffer_OpaqueDeviceMemoryDataPointer CopyToDeviceStream_Destroy CopyToDeviceStream_AddChunk
CopyToDeviceStream_TotalBytes CopyToDeviceStream_GranuleSize CopyToDeviceStream_CurrentBytes
TopologyDescription_Create TopologyDescription_Destroy TopologyDescription_PlatformName
TopologyDescription_PlatformVersion TopologyDescription_GetDeviceDescriptions
TopologyDescription_Serialize TopologyDescription_Attributes Compile Executable_OutputElementTypes
Executable_OutputDimensions Buffer_CopyToMemory Client_CreateViewOfDeviceBuffer
Executable_Fingerprint Client_TopologyDescription Executable_GetCompiledMemoryStats
""".split()

# What is called here; a function without fields of its own takes the object that its name says.
_FIELDS = """
Error_Destroy error:p
Error_Message error:p message:p message_size:z
Error_GetCode error:p code:i
Plugin_Initialize
Plugin_Attributes attributes:p num_attributes:z
Event_Destroy event:p
Event_IsReady event:p is_ready:b
Event_Error event:p
Event_Await event:p
Client_Create create_options:p num_options:z kv_get_callback:p kv_get_user_arg:p kv_put_callback:p
    kv_put_user_arg:p client:p kv_try_get_callback:p kv_try_get_user_arg:p
Client_Destroy client:p
Client_PlatformName client:p platform_name:p platform_name_size:z
Client_ProcessIndex client:p process_index:i
Client_PlatformVersion client:p platform_version:p platform_version_size:z
Client_Devices client:p devices:p num_devices:z
Client_AddressableDevices client:p addressable_devices:p num_addressable_devices:z
Client_Compile client:p program:p compile_options:p compile_options_size:z executable:p
Client_BufferFromHostBuffer client:p data:p type:i dims:p num_dims:z byte_strides:p
    num_byte_strides:z host_buffer_semantics:i device:p memory:p device_layout:p
    done_with_host_buffer:p buffer:p
DeviceDescription_Id device_description:p id:i
DeviceDescription_ProcessIndex device_description:p process_index:i
DeviceDescription_Attributes device_description:p num_attributes:z attributes:p
DeviceDescription_Kind device_description:p device_kind:p device_kind_size:z
DeviceDescription_ToString device_description:p to_string:p to_string_size:z
Device_GetDescription device:p device_description:p
Device_LocalHardwareId device:p local_hardware_id:i
Device_AddressableMemories device:p memories:p num_memories:z
Device_DefaultMemory device:p memory:p
Device_MemoryStats device:p bytes_in_use:l peak_bytes_in_use:l peak_bytes_in_use_is_set:b
    num_allocs:l num_allocs_is_set:b largest_alloc_size:l largest_alloc_size_is_set:b bytes_limit:l
    bytes_limit_is_set:b bytes_reserved:l bytes_reserved_is_set:b peak_bytes_reserved:l
    peak_bytes_reserved_is_set:b bytes_reservable_limit:l bytes_reservable_limit_is_set:b
    largest_free_block_bytes:l largest_free_block_bytes_is_set:b pool_bytes:l pool_bytes_is_set:b
    peak_pool_bytes:l peak_pool_bytes_is_set:b
Memory_Kind memory:p kind:p kind_size:z
Executable_Destroy executable:p
Executable_Name executable:p executable_name:p executable_name_size:z
Executable_NumOutputs executable:p num_outputs:z
Executable_SizeOfGeneratedCodeInBytes executable:p size_in_bytes:l
Executable_GetCostAnalysis executable:p num_properties:z properties:p
Executable_OptimizedProgram executable:p program:p
Executable_Serialize executable:p serialized_bytes:p serialized_bytes_size:z
    serialized_executable:p serialized_executable_deleter:p
Executable_GetCompiledMemoryStats executable:p generated_code_size_in_bytes:l
    argument_size_in_bytes:l output_size_in_bytes:l alias_size_in_bytes:l temp_size_in_bytes:l
    host_generated_code_size_in_bytes:l host_argument_size_in_bytes:l host_output_size_in_bytes:l
    host_alias_size_in_bytes:l host_temp_size_in_bytes:l peak_memory_in_bytes:l
    total_size_in_bytes:l
LoadedExecutable_Destroy executable:p
LoadedExecutable_GetExecutable loaded_executable:p executable:p
LoadedExecutable_Execute executable:p options:p argument_lists:p num_devices:z num_args:z
    output_lists:p device_complete_events:p execute_device:p
Executable_DeserializeAndLoad client:p serialized_executable:p serialized_executable_size:z
    loaded_executable:p overridden_serialized_compile_options:p
    overridden_serialized_compile_options_size:z
Buffer_Destroy buffer:p
Buffer_ElementType buffer:p type:i
Buffer_Dimensions buffer:p dims:p num_dims:z
Buffer_GetMemoryLayout buffer:p layout_size:z layout_extension:p body_size:z body_extension:p
    minor_to_major:p minor_to_major_size:z tile_dims:p tile_dim_sizes:p num_tiles:z type:i
Buffer_OnDeviceSizeInBytes buffer:p on_device_size_in_bytes:z
Buffer_CopyToDevice buffer:p dst_device:p dst_buffer:p
Buffer_ToHostBuffer src:p host_layout:p dst:p dst_size:z event:p
Buffer_ReadyEvent buffer:p event:p
Buffer_UnsafePointer buffer:p buffer_pointer:p
Buffer_IncreaseExternalReferenceCount buffer:p
Buffer_DecreaseExternalReferenceCount buffer:p
Buffer_OpaqueDeviceMemoryDataPointer buffer:p device_memory_ptr:p
Client_CreateViewOfDeviceBuffer client:p device_buffer_ptr:p dims:p num_dims:z element_type:i
    layout:p device:p on_delete_callback:p on_delete_callback_arg:p stream:l buffer:p
TopologyDescription_Create topology_name:p topology_name_size:z create_options:p num_options:z
    topology:p
TopologyDescription_Destroy topology:p
TopologyDescription_PlatformName topology:p platform_name:p platform_name_size:z
TopologyDescription_PlatformVersion topology:p platform_version:p platform_version_size:z
TopologyDescription_GetDeviceDescriptions topology:p descriptions:p num_descriptions:z
TopologyDescription_Attributes topology:p attributes:p num_attributes:z
Compile topology:p program:p compile_options:p compile_options_size:z client:p executable:p
"""

_KINDS: dict[str, Any] = {
    "p": ctypes.c_void_p,
    "z": ctypes.c_size_t,
    "l": ctypes.c_int64,
    "i": ctypes.c_int32,
    "b": ctypes.c_bool,
    "f": ctypes.c_float,
}


class Struct(ctypes.Structure):
    """A struct of the API."""

    SIZE: int  # up to the end of the last field, without padding


def struct(name: str, fields: str) -> type[Struct]:
    """A struct that begins with its size and its extensions.

    >>> struct("Named", "id:i")(struct_size=20).id
    0
    """
    return plain(name, f"struct_size:z extension_start:p {fields}")


def plain(name: str, fields: str) -> type[Struct]:
    """A struct with these fields alone."""
    pairs = [field.split(":") for field in fields.split()]
    typed = [(field, _KINDS[kind]) for field, kind in pairs]
    made: type[Struct] = type(name, (Struct,), {"_fields_": typed})
    last = getattr(made, pairs[-1][0])
    made.SIZE = last.offset + last.size
    return made


def _all_args() -> dict[str, type[Struct]]:
    found = {}
    for line in _FIELDS.strip().replace("\n    ", " ").split("\n"):
        name, _, fields = line.partition(" ")
        found[name] = struct(f"{name}_Args", fields)
    return found


# The struct that each function takes.
ARGS = _all_args()
NUMBERS = {name: number for number, name in enumerate(FUNCTIONS)}

Program = struct("Program", "code:p code_size:z format:p format_size:z")
ExecuteOptions = struct(
    "ExecuteOptions",
    "send_callbacks:p recv_callbacks:p num_send_ops:z num_recv_ops:z launch_id:i"
    " non_donatable_input_indices:p num_non_donatable_input_indices:z context:p call_location:p"
    " num_tasks:z task_ids:p incarnation_ids:p",
)
# What functions of a store are called with.
GetArgs = struct(
    "KeyValueGetCallback_Args",
    "key:p key_size:z timeout_in_ms:i callback_error:p user_arg:p value:p value_size:z"
    " value_deleter_callback:p",
)
TryGetArgs = struct(
    "KeyValueTryGetCallback_Args",
    "key:p key_size:z callback_error:p user_arg:p value:p value_size:z value_deleter_callback:p",
)
PutArgs = struct(
    "KeyValuePutCallback_Args",
    "key:p key_size:z value:p value_size:z callback_error:p user_arg:p",
)
NamedValue = struct("NamedValue", "name:p name_size:z type:i value:l value_size:z")
# The layout of a buffer, tiled: two heads, the permutation, no tiles, and which kind it is.
Layout = struct(
    "Buffer_MemoryLayout",
    "body_size:z body_extension:p minor_to_major:p minor_to_major_size:z tile_dims:p"
    " tile_dim_sizes:p num_tiles:z type:i",
)
LAYOUT_BODY_SIZE = 56
STRING, INT64, INT64_LIST, FLOAT, BOOL = range(5)

ERROR_CODES = """
OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED
RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE
DATA_LOSS UNAUTHENTICATED
""".split()

# Element types by the names of dtypes.
_TYPES = """
- bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 complex64
complex128 float8_e5m2 float8_e4m3fn float8_e4m3b11fnuz float8_e5m2fnuz float8_e4m3fnuz int4 uint4
- int2 uint2 float8_e4m3 float8_e3m4 float8_e8m0fnu float4_e2m1fn
""".split()
TYPES = {name: number for number, name in enumerate(_TYPES) if name != "-"}
# The host's memory may change when the call has returned.
ONLY_DURING_CALL = 0
EXTENSIONS = """
Gpu_Custom_Call Profiler Custom_Partitioner Stream Layouts FFI MemoryDescriptions Triton RawBuffer
PhaseCompile Example Unknown CrossHostTransfers ExecutableMetadata Callback HostAllocator
TpuTopology TpuExecutable Megascale
""".split()
