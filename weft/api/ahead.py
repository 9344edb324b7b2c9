"""Programs compiled for machines that are not here."""

from __future__ import annotations

from typing import Any

from weft.api.shardings import assigned
from weft.core.sharding import SingleDeviceSharding
from weft.runtime.devices import described, topology
from weft.runtime.site import is_abstract, says_where
from weft.tree.functions import tree_leaves, tree_unflatten


def machine(wanted: Any, leaves: Any, program: Any) -> Any:
    """The machine that a program is to be compiled for: the one that is named, or that whose
    described devices its arguments are on; None for devices that are here."""
    if isinstance(wanted, str):
        if not wanted:
            raise ValueError("topology is empty; write the name of a machine, as 'v5e:2x2'")
        return topology(wanted)
    if wanted is not None:
        found = getattr(wanted, "machine", wanted)
        if not hasattr(found, "compiled"):
            raise TypeError(
                f"topology is the name of a machine, as 'v5e:2x2', or what"
                f" experimental.topologies.get_topology_desc gives; got {wanted!r}"
            )
        return found
    places = [getattr(x, "sharding", None) for x in leaves]
    said = says_where(program)
    for sharding in [*places, said.sharding if said is not None else None]:
        if sharding is not None and not is_abstract(sharding):
            found = described(sharding._device_assignment[0])
            if found is not None:
                return found
    return None


def there(machine: Any, args: Any, name: str) -> Any:
    """Arguments over a mesh without devices as arguments over one of a machine's first devices."""
    places = [getattr(x, "sharding", None) for x in tree_leaves(args)]
    sizes = [s.mesh.size for s in places if s is not None and is_abstract(s)]
    if not sizes:
        return args
    machine.check_count(max(sizes))
    return assigned(args, tuple(machine.devices[: max(sizes)]), name)


class CompiledAhead:
    """A program compiled for a machine that is not here: what it costs there, and its code."""

    def __init__(self, lowered: Any, machine: Any, study: Any) -> None:
        self._lowered, self._machine, self._study = lowered, machine, study
        self.in_tree, self.out_tree = lowered.in_tree, lowered.out_tree
        self.in_avals, self.out_avals = lowered.in_avals, lowered.out_avals
        self.args_info, self.out_info = lowered.args_info, lowered.out_info
        self.fun_name = lowered.fun_name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{self.fun_name} was compiled for {self._machine.name}, a machine that this process "
            "can't use; call the jitted function to run it on this machine's devices"
        )

    @property
    def input_shardings(self) -> Any:
        """Where the arguments are to be, on the machine's devices."""
        return tree_unflatten(self.in_tree, self._places(1, self.in_tree.num_leaves))

    @property
    def output_shardings(self) -> Any:
        """Where the results are; None where the compiler decides."""
        return tree_unflatten(self.out_tree, self._places(2, self.out_tree.num_leaves))

    def _places(self, part: int, count: int) -> list[Any]:
        divided = self._lowered._divided()
        if divided is None:
            return [SingleDeviceSharding(self._machine.devices[0])] * count
        return list(divided[part])[len(divided[part]) - count :]

    def as_text(self) -> str:
        """The program after the compiler's passes, as HLO."""
        return self._study.text()

    def cost_analysis(self) -> dict[str, Any]:
        """Operations and bytes, and the seconds they should take, as that compiler counts them."""
        return self._study.costs()

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results, memory in between and code, on one device."""
        return self._study.memory()

    def explain(self) -> str:
        """Operations by kind, FLOPs, bytes and the expected time, in a few lines."""
        count = len(self._machine.devices)
        head = f"{self.fun_name} for {self._machine.name}, a machine of {count} devices: "
        return head + self._study.story()

    def runtime_executable(self) -> Any:
        """What the compiler made; ``serialize()`` gives its bytes."""
        return self._study.code

    def serialize(self) -> bytes:
        """The executable as bytes, for a process on that machine."""
        return self._study.code.serialize()
