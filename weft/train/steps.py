"""A training step for one device or many, as a plain function for a loop of your own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import P, lax, optim, tree_util
from weft import numpy as jnp
from weft.linen.training.dynamic_scale import scaled_gradients
from weft.sharding import Mesh, NamedSharding
from weft.train import gradients, precision, sharding_rules


class Step:
    """A compiled training step: ``state, outputs = step(state, batch, *args)``.

    Made by ``make_step``. ``place`` puts a state on the devices of the mesh, and ``place_batch`` a
    batch; calling the step does both for what is not there yet.

    Args:
        run: the function of state and batch.
        mesh: the mesh, or None for one device.
        rules: how the state is divided, as for ``partition_spec``.
        donate: whether the memory of the state is reused.

    Example:
        >>> from weft.train import make_step
        >>> isinstance(make_step(lambda state, batch: (state, batch)), Step)
        True
    """

    def __init__(
        self, run: Callable[..., Any], mesh: Mesh | None, rules: sharding_rules.Rules, donate: bool
    ) -> None:
        self.mesh, self.rules = mesh, rules
        self._run = run
        self._compiled = weft.jit(self._constrained, donate_argnums=(0,) if donate else ())
        self._placed: Any = None

    def _constrained(self, state: Any, batch: Any, *args: Any) -> Any:
        state, outputs = self._run(state, batch, *args)
        if self.mesh is not None:
            where = sharding_rules.state_shardings(state, self.mesh, self.rules)
            state = tree_util.tree_map(lax.with_sharding_constraint, state, where)
        return state, outputs

    def place(self, state: Any) -> Any:
        """A state on the devices of the mesh, divided as the step divides it.

        Args:
            state: a state on one device, or restored from a checkpoint.

        Returns:
            The same state; scalars of Python become arrays.
        """
        if self.mesh is None:
            return tree_util.tree_map(jnp.asarray, state)
        where = sharding_rules.state_shardings(state, self.mesh, self.rules)
        put = lambda x, s: weft.device_put(jnp.asarray(x), s)
        return tree_util.tree_map(put, state, where)

    def place_batch(self, batch: Any) -> Any:
        """A batch on the devices, its first axis divided over the mesh's axis of batches.

        Args:
            batch: arrays with examples along the first axis; of several processes, each gives its
                own examples.
        """
        if self.mesh is None:
            return batch
        where = NamedSharding(self.mesh, P(sharding_rules.batch_axis(self.mesh)))
        count = self.mesh.shape[sharding_rules.batch_axis(self.mesh)]
        many = weft.process_count() > 1

        def put(x: Any) -> Any:
            if getattr(x, "sharding", None) == where:
                return x
            if many:
                return weft.make_array_from_process_local_data(where, np.asarray(x))
            if not np.ndim(x) or np.shape(x)[0] % count:
                raise ValueError(
                    f"a batch of shape {np.shape(x)} cannot be sharded over {count} devices; drop"
                    " or pad the last examples"
                )
            return weft.device_put(x, where)

        return tree_util.tree_map(put, batch)

    def __call__(self, state: Any, batch: Any, *args: Any) -> tuple[Any, dict[str, Any]]:
        """The state after one step, and what the step has to tell."""
        return self._compiled(self._in_place(state), self.place_batch(batch), *args)

    def _in_place(self, state: Any) -> Any:
        """The state; placed at the first call, and later if it is not one that a step returned."""
        leaves = tree_util.tree_leaves(state)
        on_mesh = lambda x: (
            isinstance(x, weft.Array)
            and (self.mesh is None or getattr(x.sharding, "mesh", None) == self.mesh)
        )
        return state if all(map(on_mesh, leaves)) else self.place(state)

    def lower(self, state: Any, batch: Any, *args: Any) -> Any:
        """The step lowered for these arguments, as ``weft.jit(...).lower`` gives it."""
        return self._compiled.lower(self._in_place(state), self.place_batch(batch), *args)


def _keep_if(finite: Any, new: Any, old: Any) -> Any:
    return tree_util.tree_map(lambda a, b: jnp.where(finite, a, b), new, old)


def _differentiate(loss: Callable[..., Any], parts: int, has_aux: bool, state: Any) -> Any:
    """A function that gives gradients, the loss and aux, and the scale of the next step."""
    scale = getattr(state, "dynamic_scale", None)
    if scale is None:
        plain = gradients.accumulated_value_and_grad(loss, parts, has_aux)

        def call(*args: Any) -> Any:
            value, grads = plain(*args)
            return value, grads, None, None

        return call
    by = functools.partial(
        gradients.accumulated_value_and_grad, parts=parts, has_aux=has_aux, keep_dtypes=False
    )
    differentiate = scaled_gradients(scale, loss, by, has_aux)

    def scaled(*args: Any) -> Any:
        found = differentiate(*args)
        return found.aux, found.grad, found.finite, found.dynamic_scale

    return scaled


def make_step(
    loss: Callable[..., Any],
    *,
    has_aux: bool = False,
    mesh: Mesh | None = None,
    sharding: sharding_rules.Rules | None = None,
    accumulate: int = 1,
    policy: precision.Policy | str | None = None,
    donate: bool = True,
) -> Step:
    """A training step, which your own loop calls.

    The state is a ``TrainState`` or one like it: it has ``params`` and ``apply_gradients``. If it
    has a field ``dynamic_scale``, the loss is scaled by it, and a step whose gradients are not
    finite changes only the scale and the count of steps. If it has a field ``ema``, that follows
    the parameters.

    Args:
        loss: ``loss(params, batch, *args)`` gives the mean loss over a batch; with ``has_aux``, a
            pair of it and a tree of arrays.
        has_aux: whether ``loss`` returns a pair.
        mesh: the devices. All of them along an axis ``"data"`` if only ``sharding`` is given; one
            device if neither is.
        sharding: how the state is divided. ``"data"`` (data parallel): every device has all of it
            and a part of the batch. ``"fsdp"`` (fully sharded): every device has a part of every
            array. Pairs of a regular expression and a partition spec (tensor parallel), or a
            function of name and shape: as in ``weft.train.partition_spec``.
        accumulate: in how many parts the batch is computed, one after the other.
        policy: dtypes of the computation: a ``Policy``, or its text as ``"mixed_bfloat16"``.
        donate: whether the memory of the state that is passed is used again. Do not use that state
            afterwards.

    Returns:
        A function ``step(state, batch, *args)`` that returns the next state, and a dictionary with
        ``loss``, ``grad_norm``, ``aux`` if there is one, and ``finite`` if the loss is scaled.

    Example:
        >>> from weft.train import TrainState
        >>> loss = lambda w, batch: ((batch["x"] @ w - batch["y"]) ** 2).mean()
        >>> state = TrainState.create(apply_fn=None, params=jnp.zeros(2), tx=optim.sgd(0.1))
        >>> step = make_step(loss, sharding="data")
        >>> batch = {"x": jnp.eye(2).repeat(4, 0), "y": jnp.ones(8)}
        >>> for _ in range(100):
        ...     state, outputs = step(state, batch)
        >>> print(state.params.round(3), int(state.step))
        [1. 1.] 100
    """
    if sharding is not None and mesh is None:
        mesh = sharding_rules.default_mesh()
    if accumulate < 1:
        raise ValueError(f"accumulate={accumulate}: it must be 1 or more")
    policy = precision.get_policy(policy) if isinstance(policy, str) else policy
    used = loss if policy is None else policy.wrap(loss)

    @functools.wraps(loss)
    def run(state: Any, batch: Any, *args: Any) -> Any:
        differentiate = _differentiate(used, accumulate, has_aux, state)
        value, grads, finite, scale = differentiate(state.params, batch, *args)
        outputs = dict(zip(("loss", "aux"), value)) if has_aux else {"loss": value}
        outputs["grad_norm"] = optim.tree.norm(grads)
        new = state.apply_gradients(grads=grads)
        if getattr(state, "ema", None) is not None:
            new = new.replace(ema=state.ema.update(new.params))
        if finite is not None:
            outputs["finite"] = finite
            new = _keep_if(finite, new, state).replace(step=new.step, dynamic_scale=scale)
        return new, outputs

    return Step(run, mesh, "data" if sharding is None else sharding, donate)
