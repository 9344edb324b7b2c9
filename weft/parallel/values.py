"""Values inside of ``shard_map`` outside of ``jit``: they can be printed, and tested where they are
the same on all devices. What has been written so far of the program is run up to the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.core import processes
from weft.core.batching import broadcast_axis
from weft.core.effects import NamedAxisEffect
from weft.core.jaxpr import Jaxpr, JaxprEqn, Literal, eval_jaxpr
from weft.core.sharding import Mesh
from weft.core.trace import Tracer, eval_trace, state


class Values:
    """The values of a program that is being staged on arguments that are known.

    ``run`` maps a function over the devices and stacks what they compute.
    """

    def __init__(self, run: Callable[[Any], Any], mesh: Mesh, manual: Any, checked: bool) -> None:
        self.run = run
        self.mesh = mesh
        self.manual = tuple(manual)
        self.checked = checked
        self.around = state.axis_env, state.manual, knobs.thread.mesh

    def same(self, trace: Any, var: Any) -> Any:
        """A value that all devices share; None where that is not known."""
        if type(var) is Literal:
            return var.val
        if not self.checked or var.aval.mat.varying:
            return None
        parts = self.of_devices(trace, var)
        return None if parts is None else parts[0]

    def text(self, trace: Any, var: Any) -> str | None:
        """A value as it is printed: what each device has."""
        if type(var) is Literal:
            return None
        parts = self.of_devices(trace, var)
        if parts is None:
            return None
        names = ", ".join(map(str, self.mesh.axis_names))
        axes = [self.mesh.axis_names.index(name) for name in self.manual]
        sizes = tuple(self.mesh.axis_sizes[a] for a in axes)
        found = []
        for at, device in np.ndenumerate(self.mesh.devices):
            part = parts[np.ravel_multi_index([at[a] for a in axes], sizes)]
            place = ", ".join(map(str, at)) + ("," if len(at) == 1 else "")
            where = f"{device.platform}:{device.id} at mesh coordinates ({names},) = ({place})"
            found.append(f"On {where}:\n{part}\n")
        return "\n".join(found)

    def of_devices(self, trace: Any, var: Any) -> Any:
        """What each device has, along a first axis; None for what only running all can tell."""
        if isinstance(var.aval.dtype, dtypes.ExtendedDType):
            return None
        if any(d.process_index != processes.index for d in self.mesh.devices.flat):
            return None
        eqns = needed(trace.eqns, var)
        effects = [e for eqn in eqns for e in eqn.effects if not isinstance(e, NamedAxisEffect)]
        if effects or any(isinstance(c, Tracer) for c in trace.consts):
            return None
        program = Jaxpr(trace.constvars, trace.invars, [var], eqns, debug_info=trace.debug_info)
        consts = list(trace.consts)

        def up_to_it(*args: Any) -> Any:
            (x,) = eval_jaxpr(program, consts, *args)
            return broadcast_axis(x, 1, 0)

        inside = state.trace, state.axis_env, state.manual, state.source
        state.trace, state.source = eval_trace, None
        state.axis_env, state.manual = self.around[:2]
        try:
            with knobs.mesh(self.around[2]):
                return np.asarray(self.run(up_to_it))
        finally:
            state.trace, state.axis_env, state.manual, state.source = inside


def needed(eqns: list[JaxprEqn], var: Any) -> list[JaxprEqn]:
    """The equations that a variable is computed by."""
    wanted, kept = {var}, []
    for eqn in reversed(eqns):
        if wanted.intersection(eqn.outvars):
            kept.append(eqn)
            wanted.update(x for x in eqn.invars if type(x) is not Literal)
    return kept[::-1]
