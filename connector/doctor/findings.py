"""Findings about a snapshot, and the budgets that they are compared with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.options.option_fields import seconds
from pyspark_savepoint.statebackends.model.table_options import InvalidOptionValueError


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True)
class Finding:
    """One thing that may go wrong."""

    check: str
    severity: Severity
    evidence: str
    remedy: str
    operator: str | None = None
    state: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the finding as a row."""
        return {**asdict(self), "severity": self.severity.value}


#: The fields of a finding, which are the columns of its table.
COLUMNS = tuple(each.name for each in fields(Finding))


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
    def parse(cls, text: str | None) -> Self:
        """Parse ``size=20GB,skew=4,ttl-age=30d``."""
        known = {found.name.replace("_", "-"): found for found in fields(cls)}
        values: dict[str, float] = {}
        for part in () if text is None else text.split(","):
            name, _, value = (piece.strip() for piece in part.partition("="))
            if not name:
                raise OptionError("a budget has no name", expected="such as size=20GB,skew=4", found=repr(text))
            if name not in known:
                raise OptionError(f"there is no budget {name!r}", remedy=did_you_mean(name, known))
            if known[name].name in values:
                raise OptionError(f"budget {name!r} is given twice", found=repr(text))
            values[known[name].name] = UNITS[known[name].metadata["unit"]](name, value)
        return cls(**values)


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
        if value.isdecimal() and int(value):
            raise InvalidOptionValueError("a time with its unit, such as 90s, 30m, 2h or 1d")
        return float(seconds(value))
    except InvalidOptionValueError as refused:
        raise OptionError(f"budget {name!r} is a time", expected=str(refused), found=repr(value)) from None


UNITS: Mapping[str, Any] = {"bytes": _bytes, "ratio": _ratio, "seconds": _seconds}
