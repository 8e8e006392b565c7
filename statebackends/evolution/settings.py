"""Settings of a node that change what its state is worth: windows, order, number of rows, bounds, kinds of joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark_savepoint.statebackends.evolution.changes import TimersChange, Verdict, worst
from pyspark_savepoint.statebackends.evolution.lineage import (
    SWAPPED_TYPES,
    WINDOW_AGGREGATES,
    Lineage,
    Term,
    join_spec,
    pattern_of,
    windows_of,
)
from pyspark_savepoint.statebackends.evolution.plans import Node, order_of
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import milliseconds_of

LARGER = "rows beyond the best {old} are not in its state, and up to {new} are wanted now"


@dataclass(frozen=True)
class Settings:
    """What a changed setting does. ``refusal``: nothing of the state stays, with the verdict of that."""

    verdict: Verdict = Verdict.AS_IS
    refusal: str | None = None
    limit: int | None = None
    #: A Top-N has more rows than before.
    is_larger: bool = False
    timers: tuple[TimersChange, ...] = ()
    sentences: tuple[str, ...] = ()


def compare_settings(old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    """Return what the settings of a node do to the state of its partner."""
    if node.kind in WINDOW_AGGREGATES:
        return _with_sets(_windows(old, new, before, node), old, new, before, node)
    if node.kind in ("rank", "window-rank", "limit", "sort-limit"):
        return _rank(old, new, before, node)
    if node.kind == "over-aggregate":
        return _over(old, new, before, node)
    if node.kind in ("interval-join", "window-join", "temporal-join") and old.times(before) != new.times(node):
        return Settings(Verdict.BACKFILLED, "its times or windows are others: all of it from history")
    if node.kind == "interval-join":
        return _interval(old, new, before, node)
    if node.kind in ("window-join", "temporal-join"):
        return _buffering(old, new, before, node)
    if node.kind == "join":
        return _join(old, new, before, node)
    if node.kind == "deduplicate":
        kinds = [(bool(one.attributes["isRowtime"]), bool(one.attributes["keepLastRow"])) for one in (before, node)]
        return _plain(kinds[0], kinds[1], "it keeps the first row, not the last, or by another time: from history")
    if node.kind == "changelog-normalize":
        return _normalize(old, new, before, node)
    if node.kind in ("group-aggregate", "global-group-aggregate", "incremental-group-aggregate"):
        return _with_sets(Settings(), old, new, before, node)
    if node.kind == "match":
        return _match(old, new, before, node)
    return _plain(old.described(before), new.described(node), "its order or windows are others: all of it from history")


def _plain(old: object, new: object, reason: str) -> Settings:
    return Settings() if old == new else Settings(Verdict.BACKFILLED, reason)


def _with_sets(settings: Settings, old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    """Return the settings of an aggregate with what becomes of its GROUPING SETS."""
    one, other = old.sets_of(before), new.sets_of(node)
    if settings.refusal is not None or one is None or other is None:
        return settings
    added = [_set(new, node, fields) for columns, fields in other.fields.items() if columns not in one.numbers]
    gone = [_set(old, before, fields) for columns, fields in one.fields.items() if columns not in other.numbers]
    sentences = list(settings.sentences)
    if added:
        sentences.append(f"groups by {' and '.join(added)} are new, and begin with no rows of before")
    if gone:
        sentences.append(f"groups by {' and '.join(gone)} are gone: the sink keeps their rows, and the state as well")
    verdict = Verdict.FILLED if added else settings.verdict
    return replace(settings, verdict=worst((settings.verdict, verdict)), sentences=tuple(sentences))


def _set(lineage: Lineage, node: Node, fields: Sequence[Term]) -> str:
    """Return a set of GROUPING SETS as SQL has it."""
    keys = {key.digest for key in lineage.keys_of(node)}
    return f"({', '.join(one.name for one in fields if one.digest in keys)})"


def _buffering(old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    """Compare joins that keep rows of both inputs until the watermark, whatever their kind."""
    if old.bounds(before) != new.bounds(node):
        return Settings(Verdict.BACKFILLED, "its windows are others: all of it from history")
    return Settings(sentences=_becomes(old, new, before, node))


def _becomes(old: Lineage, new: Lineage, before: Node, node: Node) -> tuple[str, ...]:
    """Return a sentence about a join whose kind is another one; none if it is not."""
    kind, other = _join_types(old, new, before, node)
    return () if kind == other else (f"{kind} becomes {other}: what was emitted before stays in the sink",)


def _join_types(old: Lineage, new: Lineage, before: Node, node: Node) -> tuple[str, str]:
    """Return the types of two joins, that of OLD with the sides of NEW."""
    kind, other = (str(join_spec(one).get("joinType")) for one in (before, node))
    return SWAPPED_TYPES[kind] if old.is_swapped(before) != new.is_swapped(node) else kind, other


def _normalize(old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    """Compare the conditions that it applies itself: rows that they leave out are not in its state."""
    conditions = [set(lineage.of(one).filters) for lineage, one in ((old, before), (new, node))]
    return _plain(conditions[0], conditions[1], "the condition that it applies is another one: all of it from history")


def _join(old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    nulls = [
        dict(zip(lineage.join_keys(one), join_spec(one).get("filterNulls") or (), strict=False))
        for lineage, one in ((old, before), (new, node))
    ]
    if any(nulls[0][pair] != nulls[1][pair] for pair in nulls[0].keys() & nulls[1].keys()):
        return Settings(Verdict.BACKFILLED, "NULL in its keys is compared otherwise: all of it from history")
    kind, other = _join_types(old, new, before, node)
    if kind == other:
        return Settings()
    sentence = f"{kind} becomes {other}"
    if other in ("LEFT", "FULL", "RIGHT"):
        sentence += ": rows of before that never matched were not emitted, and are emitted only when they change"
    return Settings(sentences=(sentence,))


def _interval(old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    (is_event, low, high), (event_is, new_low, new_high) = old.bounds(before), new.bounds(node)
    kind, other = _join_types(old, new, before, node)
    if is_event != event_is:
        return Settings(Verdict.BACKFILLED, "its time is another one: all of it from history")
    if other not in ("INNER", kind):
        return Settings(Verdict.BACKFILLED, "which rows have matched was not kept: all of it from history")
    sentences = _becomes(old, new, before, node)
    is_narrower = new_low >= low and new_high <= high and (low, high) != (new_low, new_high)
    if other != "INNER" and (is_narrower or old.residual(before) != new.residual(node)):
        what = "its bounds are narrower" if is_narrower else "its condition is another one"
        return Settings(Verdict.LOST, sentences=(f"{what}: rows of before have matched without that", *sentences))
    if (low, high) == (new_low, new_high):
        return Settings(sentences=sentences)
    if is_narrower:
        sentence = "its bounds are narrower: rows that they leave out are dropped in time"
        return Settings(sentences=(sentence, *sentences))
    return Settings(Verdict.LOST, sentences=("its bounds are wider: rows beyond those of before are gone", *sentences))


def _over(old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    same = old.over_window(before) == new.over_window(node)
    return Settings() if same else Settings(Verdict.BACKFILLED, "the rows of OVER are others: all of it from history")


def _windows(old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    one, other = windows_of(before, old.time_of(before)), windows_of(node, new.time_of(node))
    if one == other:
        return Settings()
    service = "window-timers"
    made = (TimersChange(service, "made", "at the end of each open window"),)
    windows = [(each.attributes.get("windowing") or {}).get("window") or {} for each in (before, node)]
    slides = {each.get("slide") for each in windows}
    shapes = {each.get("type") for each in windows}
    if shapes == {"HoppingWindow"} and len(slides) == 1 and one[1:] == other[1:] and _divides(windows[0], windows[1]):
        sizes = [milliseconds_of(str(each.get("size"))) or 0 for each in windows]
        if sizes[1] < sizes[0]:
            reason = "its windows are shorter: all of their rows are there"
            return Settings(Verdict.TRANSFORMED, sentences=(reason,))
        reason = "the first longer windows lack their oldest rows, which shorter windows have let go"
        return Settings(Verdict.LOST, sentences=(reason,))
    return Settings(Verdict.BACKFILLED, "its windows are others: the open ones from history", timers=made)


def _divides(*windows: Mapping[str, Any]) -> bool:
    """Return whether sizes are multiples of the slide, so that slices are as long as it."""
    for window in windows:
        size, slide = milliseconds_of(str(window.get("size"))), milliseconds_of(str(window.get("slide")))
        if not size or not slide or size % slide or window.get("offset"):
            return False
    return True


def _rank(old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    orders = [_order(lineage, one) for lineage, one in ((old, before), (new, node))]
    strategies = [str((one.attributes.get("rankStrategy") or {}).get("type")) for one in (before, node)]
    limits: list[Mapping[str, Any]] = [one.attributes.get("rankRange") or {} for one in (before, node)]
    if strategies[0] != strategies[1]:
        return Settings(Verdict.BEGINS_EMPTY, f"it ranks by {strategies[1]}, not {strategies[0]}: other states")
    if orders[0] != orders[1]:
        return Settings(Verdict.BACKFILLED, "its order is another one: all of it from history")
    if old.windows(before) != new.windows(node):
        return Settings(Verdict.BACKFILLED, "its windows are others: the open ones from history")
    one, other = limits[0].get("end"), limits[1].get("end")
    if limits[0] == limits[1]:
        # With numbers in its result Flink keeps a row beyond the last number, which it would take for a better one.
        numbered = [each.kind == "rank" and bool(each.attributes.get("outputRowNumber")) for each in (before, node)]
        trims = numbered == [True, False] and strategies[0] != "Retract" and isinstance(other, int)
        return Settings(limit=other if trims else None)
    if not isinstance(one, int) or not isinstance(other, int):
        return Settings(Verdict.UNKNOWN, "a limit that is a column of the rows is not known")
    begins: tuple[str, ...] = ()
    if limits[0].get("start") != limits[1].get("start"):
        if strategies[0] != "Retract":
            return Settings(Verdict.UNKNOWN, "its ranks begin elsewhere, and which rows it keeps then is not known")
        begins = ("its ranks begin elsewhere: the sink keeps what it has of the others",)
    if strategies[0] == "Retract":
        return Settings(sentences=(f"it keeps all rows: the best {other} are taken of them from now on", *begins))
    if other < one:
        return Settings(limit=other)
    if other == one:
        return Settings()
    return Settings(is_larger=True, sentences=(LARGER.format(old=one, new=other),))


def _order(lineage: Lineage, node: Node) -> list[Any]:
    fields = lineage.inputs(node)[0].fields
    return [{**one, "index": fields[int(one["index"])].digest} for one in order_of(node)]


def _match(old: Lineage, new: Lineage, before: Node, node: Node) -> Settings:
    fields = [[one.digest for one in lineage.inputs(each)[0].fields] for lineage, each in ((old, before), (new, node))]
    partitions = [each.attributes["matchSpec"]["partition"] for each in (before, node)]
    if fields[0] == fields[1] and partitions[0] == partitions[1] and pattern_of(before) == pattern_of(node):
        return Settings()
    return Settings(Verdict.LOST, "partial matches of another pattern, or of rows with other columns, are lost")
