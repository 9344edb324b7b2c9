"""Shardings: meshes of devices, partition specs, and where arrays live."""

from weft.core.sharding import AxisType as AxisType
from weft.core.sharding import Mesh as Mesh
from weft.core.sharding import NamedSharding as NamedSharding
from weft.core.sharding import PartitionSpec as PartitionSpec
from weft.core.sharding import Sharding as Sharding
from weft.core.sharding import SingleDeviceSharding as SingleDeviceSharding


def make_single_device_sharding(device, *, memory_kind=None):
    """A sharding that puts all of an array on one device."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)
