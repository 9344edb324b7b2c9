"""The cases by family."""

from tests.optim.cases import contrib, losses, optimisers, schedules, tools, transforms

FAMILIES = {
    "contrib": contrib.CASES,
    "losses": losses.CASES,
    "optimisers": optimisers.CASES,
    "schedules": schedules.CASES,
    "tools": tools.CASES,
    "transforms": transforms.CASES,
}
