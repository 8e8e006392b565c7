"""Budgets of the doctor: the limits that findings are compared with, as ``size=20GB,skew=4,ttl-age=30d``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from pyspark_savepoint.formats.errors import OptionError, did_you_mean, type_name
from pyspark_savepoint.options.option_fields import seconds
from pyspark_savepoint.statebackends.requests.table_options import InvalidOptionValueError


def _budget(default: float | None, unit: str, doc: str) -> Any:
    return field(default=default, metadata={"unit": unit, "doc": doc})


@dataclass(frozen=True)
class Budgets:
    """Limits of the checks; None: not checked."""

    size: float | None = _budget(None, "bytes", "bytes of the snapshot, such as 20GB")
    skew: float = _budget(4.0, "ratio", "bytes of a key group, as a multiple of the average one that has state")
    key: float = _budget(8 << 20, "bytes", "bytes of one key in one state")
    floor: float = _budget(1 << 20, "bytes", "smallest number of bytes of a key group that is reported")
    ttl_age: float | None = _budget(None, "seconds", "age of state with a time to live, such as 30d")
    timer_age: float = _budget(365 * 86_400, "seconds", "how far a timer is behind the newest of its kind")

    @classmethod
    def parse(cls, budgets: str | Mapping[str, str | float] | None) -> Self:
        """Parse ``size=20GB,skew=4,ttl-age=30d``, or a mapping of these names."""
        by_name = {budget.name.replace("_", "-"): budget for budget in fields(cls)}
        values: dict[str, float] = {}
        for name, value in _pairs(budgets):
            if name not in by_name:
                raise OptionError(f"there is no budget {name!r}", remedy=did_you_mean(name, by_name))
            if by_name[name].name in values:
                raise OptionError(f"budget {name!r} is given twice", found=repr(budgets))
            values[by_name[name].name] = UNITS[by_name[name].metadata["unit"]](name, value)
        return cls(**values)


def _pairs(budgets: object) -> Iterator[tuple[str, str]]:
    """Yield names and values of budgets, which a text or a mapping has."""
    if isinstance(budgets, Mapping):
        for name, value in budgets.items():
            if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, str | int | float):
                raise OptionError(
                    "budgets are texts or numbers by their names",
                    expected="such as {'size': '20GB', 'skew': 4}",
                    found=f"{name!r}: {value!r}",
                )
            yield name.replace("_", "-"), str(value)
    elif isinstance(budgets, str):
        for part in budgets.split(","):
            name, _, text = (piece.strip() for piece in part.partition("="))
            if not name:
                raise OptionError("a budget has no name", expected="such as size=20GB,skew=4", found=repr(budgets))
            yield name, text
    elif budgets is not None:
        raise OptionError(
            "budgets are a text or a mapping", expected="such as 'size=20GB,skew=4'", found=type_name(budgets)
        )


def _bytes(name: str, value: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)i?b?", value.casefold())
    if match is None:
        raise OptionError(f"budget {name!r} is a number of bytes", expected="such as 20GB or 512m", found=repr(value))
    return float(match[1]) * (1 << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2]])


def _ratio(name: str, value: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) or float(value) < 1:
        raise OptionError(f"budget {name!r} is a ratio of 1 or more", expected="such as 4", found=repr(value))
    return float(value)


def _seconds(name: str, value: str) -> float:
    try:
        if value.isdecimal() and value.strip("0"):
            raise InvalidOptionValueError("a time with its unit, such as 90s, 30m, 2h or 1d")
        return float(seconds(value))
    except InvalidOptionValueError as refused:
        raise OptionError(f"budget {name!r} is a time", expected=str(refused), found=repr(value)) from None


UNITS: Mapping[str, Any] = {"bytes": _bytes, "ratio": _ratio, "seconds": _seconds}
