"""Windows and slices of SQL operators, which keep only their ends: a number of milliseconds.

    window aggregates      ends of slices: a window that tumbles is one slice, one that hops has several, and a
                           window that cumulates has one for each step, the first of which has all that came so far
    windows of the input   ends of windows: WindowRank, WindowDeduplicate, WindowJoin, aggregates of aggregates

Both are times without a zone, as ``window_start`` and ``window_end`` in SQL are. A compiled plan (ISO
8601: ``PT1H``) and the text of EXPLAIN (``1 h``) describe the windows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Columns with starts and ends.
OF_WINDOWS, OF_SLICES = ("window_start", "window_end"), ("slice_start", "slice_end")
SPAN_COLUMNS = (*OF_WINDOWS, *OF_SLICES)
#: Shapes of windows in a compiled plan, as EXPLAIN calls them.
SHAPES = {"TumblingWindow": "TUMBLE", "HoppingWindow": "HOP", "CumulativeWindow": "CUMULATE"}
EXPLAINED = re.compile(r"(TUMBLE|HOP|CUMULATE)\((.*)\)")
ITEM = re.compile(r"(\w+)=\[([^\]]*)\]")
ISO = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?")
UNITS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1}
TEXT = re.compile(r"(\d{1,15}) (d|h|min|s|ms)")


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """What lies before the ends that an operator keeps: ``size`` milliseconds; ``whole``: windows, not slices.

    Windows that cumulate begin where the last one of full size ended: every ``size`` after ``offset``.
    """

    size: int
    whole: bool
    cumulates: bool = False
    offset: int = 0

    @property
    def columns(self) -> tuple[str, str]:
        """Return the names of the columns with starts and ends."""
        return OF_WINDOWS if self.whole else OF_SLICES


def planned_span(node: Mapping[str, Any]) -> WindowSpan | None:
    """Return the windows of a node of a compiled plan; None for a node without, and for sessions."""
    windowing = node.get("windowing") or node.get("leftWindowing")
    if not isinstance(windowing, Mapping) or not isinstance(windowing.get("window"), Mapping):
        return None
    window = windowing["window"]
    shape = SHAPES.get(str(window.get("type")))
    lengths = {str(name): _iso(value) for name, value in window.items() if isinstance(value, str)}
    return _span(shape, lengths, attached=windowing.get("strategy") == "WindowAttached")


def explained_span(attributes: Mapping[str, str]) -> WindowSpan | None:
    """Return the windows of a line of EXPLAIN.

    >>> explained_span({"window": "HOP(time_col=[ts], size=[30 min], slide=[10 min])"})
    WindowSpan(size=600000, whole=False, cumulates=False, offset=0)
    """
    match = EXPLAINED.fullmatch(attributes.get("window", attributes.get("leftWindow", "")))
    if match is None:
        return None
    items: dict[str, str] = dict(ITEM.findall(match[2]))
    lengths = {"maxSize" if name == "max_size" else name: _text(value) for name, value in items.items()}
    return _span(match[1], lengths, attached="win_end" in items)


def _span(shape: str | None, lengths: Mapping[str, int | None], *, attached: bool) -> WindowSpan | None:
    offset = lengths.get("offset") or 0
    size = lengths.get("maxSize") if shape == "CUMULATE" else lengths.get("size")
    part = {"TUMBLE": size, "HOP": lengths.get("slide"), "CUMULATE": lengths.get("step")}.get(shape or "")
    if not size or not part:
        return None
    if attached:
        return WindowSpan(size, whole=True, cumulates=shape == "CUMULATE", offset=offset)
    return WindowSpan(math.gcd(size, part), whole=shape == "TUMBLE")


def _iso(text: str) -> int | None:
    """Return the milliseconds of a duration.

    >>> _iso("PT1H30M"), _iso("PT0.5S"), _iso("PT-1S")
    (5400000, 500, None)
    """
    match = ISO.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(each or 0) for each in match.groups()[:3])
    return (hours * 60 + minutes) * 60_000 + seconds * 1_000 + int((match[4] or "").ljust(3, "0")[:3])


def _text(text: str) -> int | None:
    match = TEXT.fullmatch(text)
    return int(match[1]) * UNITS[match[2]] if match else None
