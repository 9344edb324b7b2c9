"""The hand-written routines of the CPU, by operation: each is an acceleration that the knob
``routines`` can turn off; what it did is then done by kernels.
"""

from __future__ import annotations

from weft.base import knobs
from weft.base.functional import lru

# Operations with a routine, by the name that turns them off; routines/table.py has their files.
ROUTINES = {
    "products": "dot_general",
    "convolutions": "conv_general_dilated",
    "windows": "reduce_window_sum reduce_window_max reduce_window_min select_and_gather_add"
    " select_and_scatter_add",
    "fourier": "fft",
    "sorting": "sort top_k approx_top_k partition",
    "scatter": "scatter scatter-add scatter-sub scatter-mul scatter-min scatter-max",
    "cumulative": "cumsum cumprod cummax cummin cumlogsumexp reduce_prod",
    "special": "igamma igammac igamma_grad_a random_gamma_grad regularized_incomplete_beta zeta"
    " polygamma",
    "permutations": "lu_pivots_to_permutation",
    "draws": "random_gamma random_poisson random_binomial",
}
_GROUP = {name: group for group, names in ROUTINES.items() for name in names.split()}


@lru(32)
def _off(text: str) -> frozenset[str]:
    """The groups that are off."""
    if text in ("on", "off"):
        return frozenset(ROUTINES if text == "off" else ())
    groups = frozenset(part.strip().removeprefix("-") for part in text.split(","))
    unknown = sorted(groups.difference(ROUTINES))
    if unknown:
        raise ValueError(
            f"routines {', '.join(unknown)} are not CPU routines; those that can be turned off are"
            f" {', '.join(sorted(ROUTINES))}"
        )
    return groups


def some_off() -> bool:
    """Whether any operation is left to kernels."""
    return bool(_off(knobs.thread.routines))


def is_on(name: str) -> bool:
    """Whether an operation is for a routine, or for a library: not for kernels."""
    return _GROUP.get(name) not in _off(knobs.thread.routines)
