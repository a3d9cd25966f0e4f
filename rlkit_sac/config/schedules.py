"""Which options may change with the frames of a run, and within which limits."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, get_type_hints

from rlkit_sac.config.values import value_error

_TEMPERATURE = ("alpha_init", "target_entropy")


def schedule_errors(section: Any) -> list[tuple[str, str]]:
    """List schedules of options that cannot change, or with values out of range.

    Args:
        section: of the loss or of the update, with ``schedules``, and the names of options that may
            have one in ``scheduled``; learning rates may, too.

    >>> from rlkit_sac.config import UpdateConfig
    >>> schedule_errors(UpdateConfig(schedules={"lr_actr": {0: 1e-3}}))
    [('schedules', "there is no schedule of 'lr_actr'; did you mean lr_actor?")]
    """
    return [
        ("schedules", problem)
        for name, points in section.schedules.items()
        for problem in _problems(section, name, points)
    ]


def _is_rate(name: str) -> bool:
    return name == "lr" or name.startswith("lr_")


def _problems(section: Any, name: str, points: Mapping[int, float]) -> list[str]:
    names = [name for name in vars(section) if _is_rate(name) or name in section.scheduled]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]}?" if near else f"choose among {', '.join(names)}"
        return [f"there is no schedule of {name!r}; {advice}"]
    is_fixed = getattr(section, "fixed_alpha", None)
    if name in _TEMPERATURE and is_fixed != (name == "alpha_init"):
        return [f"{name} can change only where fixed_alpha is {str(not is_fixed).lower()}"]
    if not points:
        return [f"{name} needs a value at one number of frames at least"]
    found = [f"{name} must name frames from 0 on, got {at}" for at in points if at < 0]
    hint = get_type_hints(type(section), include_extras=True)[name]
    for value in points.values():
        if value == 0 and _is_rate(name):
            continue  # a schedule may end at 0
        if error := value_error(value, hint):
            found.append(f"{name} {error}")
        elif value == 0 and name == "dqda_clipping":
            found.append("dqda_clipping must stay above 0")
    return found
