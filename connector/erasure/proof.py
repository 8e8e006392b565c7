"""The proof of an erasure: what its report says, against both snapshots as they are now."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark_savepoint.erasure.erasing import Erasing
from pyspark_savepoint.erasure.files import NOT_IN_METADATA, Searched
from pyspark_savepoint.erasure.findings import Findings, files_of
from pyspark_savepoint.erasure.kept import OPERATOR_STATE
from pyspark_savepoint.erasure.kept import Place as Elements
from pyspark_savepoint.erasure.patterns import certain_of
from pyspark_savepoint.erasure.report import ErasureReport, Row, hits_as_text
from pyspark_savepoint.erasure.tables import operator_of, place_of, unknown_place
from pyspark_savepoint.text.texts import numbered

ERROR, NOTE = "error", "note"
UID_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


def finding(check: str, severity: str, evidence: str) -> Row:
    """Return a finding about an erasure."""
    return {"check": check, "severity": severity, "evidence": evidence}


def places_of(report: ErasureReport, *snapshots: Erasing) -> set[str]:
    """Return what can be accepted: places with values, what was not looked into, and files that nothing names."""
    content = report.content
    places = {place_of(one) for one in content["standing"]} | {unknown_place(one) for one in content["not_looked_into"]}
    for snapshot in snapshots:
        places |= snapshot.looked.places | {unknown_place(one) for one in Findings(snapshot).not_looked_into()}
        places |= {one.name for one in snapshot.files if not one.is_named}
    return places


def verified(
    report: ErasureReport,
    new: Erasing,
    old: Erasing | None,
    hashes: tuple[Sequence[str], Mapping[str, Any]],
    differences: Sequence[Row],
    others_removed: Iterable[str],
    conditions: Mapping[Elements, str | None],
    accept: Collection[str],
) -> Iterator[Row]:
    """Yield findings about an erasure, none of severity ``error`` if it is proved; they name operators by uid.

    Args:
        report: What was written about it.
        new: The new savepoint, examined; ``old`` is the older one, of which only files were searched.
        old: The older snapshot; None if it is gone.
        hashes: The salted hashes of the keys, and the conditions.
        differences: What ``diff`` counts now.
        others_removed: What is missing beside the keys.
        conditions: How the new savepoint differs from what conditions leave of the older one, as far as compared.
        accept: Places where keys may stand, as :func:`places_of` names them.

    """
    uids = new.known_uids()
    for one in _findings(report, new, old, hashes, differences, others_removed, conditions, accept):
        yield {**one, "evidence": UID_HASH.sub(lambda match: uids.get(match[0], match[0]), one["evidence"])}


def _findings(
    report: ErasureReport,
    new: Erasing,
    old: Erasing | None,
    salted_hashes: tuple[Sequence[str], Mapping[str, Any]],
    differences: Sequence[Row],
    others_removed: Iterable[str],
    conditions: Mapping[Elements, str | None],
    accept: Collection[str],
) -> Iterator[Row]:
    content = report.content
    hashes, where = salted_hashes
    if sorted(content["arguments"]["keys"]) != sorted(hashes):
        yield finding("keys", ERROR, "the keys, or the salt, are not those of the report")
    if content["arguments"]["where"] != where:
        yield finding("where", ERROR, "the conditions are not those of the report")
    if content["arguments"]["by"] != dict(new.by):
        yield finding("by", ERROR, "the columns of the keys are not those of the report")
    if content["after"] is None:
        yield finding("report", ERROR, "the report is of a dry run: nothing was written")
        return
    yield from _same_files("after", content["after"]["files"], files_of(new.files))
    if old is None:
        yield finding("before", ERROR, "the older snapshot is gone: what was removed cannot be compared")
    else:
        yield from _same_files("before", content["before"]["files"], files_of(old.files))
    for (operator, table, state), one in new.looked.states.items():
        if one.removed and (operator, table, state) not in conditions:
            yield finding("rows", ERROR, f"{numbered(one.removed, 'row')} of {operator} {table} {state} still there")
    for (operator, table, state), how in conditions.items():
        if how is not None:
            yield finding("rows", ERROR, f"{operator} {table} {state}: {how}")
    yield from _standing(new, accept)
    yield from _in_files(content, new, accept)
    for unread in new.looked.unread:
        yield finding("unread", NOTE, f"{operator_of(unread)} {unread['table']}: {unread['why']}")
    if old is not None:
        yield from _only_removals(content, new, old, differences)
    for why in others_removed:
        yield finding("differences", ERROR, why)


def _same_files(check: str, then: Sequence[Row], now: Sequence[Row]) -> Iterator[Row]:
    """Compare what ``_metadata`` names; other files are searched only."""
    before, after = (
        {row["name"]: row["sha256"] for row in rows if row["sha256"] and NOT_IN_METADATA not in row["of"]}
        for rows in (then, now)
    )
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield finding(check, ERROR, f"file {name} is missing")
        elif name not in before:
            yield finding(check, ERROR, f"file {name} is not in the report")
        elif before[name] != after[name]:
            yield finding(check, ERROR, f"file {name} has another SHA-256 than in the report")


def _standing(new: Erasing, accept: Collection[str]) -> Iterator[Row]:
    unknown = {unknown_place(one) for one in Findings(new).not_looked_into()}.intersection(accept)
    for one in new.looked.standing.values():
        location = place_of(one.row())
        certain = certain_of(one.hits)
        if one.equal or certain:
            severity = NOTE if location in accept or unknown_place(one.place) in unknown else ERROR
            yield finding(
                "standing", severity, f"{location}: {one.equal} values equal to a key, {certain} with one inside"
            )
        elif one.hits:
            yield finding(
                "standing", NOTE, f"{location}: possible hits of short patterns: {hits_as_text(one.row()['inside'])}"
            )


def _in_files(content: Row, new: Erasing, accept: Collection[str]) -> Iterator[Row]:
    earlier = {
        row["name"]: {(h["encoding"], h["bytes"]): h["hits"] for h in row.get("hits", ())}
        for row in content["after"]["files"]
    }
    accepted = {one.place["operator_uid_hash"] for one in new.looked.standing.values() if place_of(one.row()) in accept}
    accepted |= {one["operator_uid_hash"] for one in Findings(new).not_looked_into() if unknown_place(one) in accept}
    inside = {operator for one in new.files for operator, _ in one.of if one.name.startswith("_metadata:")}
    for one in new.files:
        operators = {operator for operator, _ in one.of if operator}
        allowed = bool(operators & accepted) or (one.name == "_metadata" and bool(inside & accepted))
        allowed = allowed if one.is_named else one.name in accept
        before = f"{one.name}: " if one.is_named else f"{one.name}, which _metadata does not name: "
        if not one.is_named and one.problem is not None:
            yield finding("files", NOTE if allowed else ERROR, f"{before}{one.problem}")
        elif not one.is_named and not one.hits:
            yield finding("files", NOTE, f"{before}nothing of the keys is in it")
        for (name, certain, size), count in sorted(one.hits.items()):
            what = f"{before}{numbered(count, 'hit')} of {size} bytes ({name})"
            if certain:
                yield finding("files", NOTE if allowed else ERROR, what)
            elif count != earlier.get(one.name, {}).get((name, size), 0):
                yield finding(
                    "files", NOTE if allowed and not one.is_named else ERROR, f"{what}, other than in the report"
                )


def _bytes_of(files: Sequence[Searched], operator: str) -> list[str | None]:
    """Return the digests of what has the operator state of an operator."""
    return sorted({one.sha256 for one in files if (operator, "operator state") in one.of}, key=str)


def _only_removals(content: Row, new: Erasing, old: Erasing, differences: Sequence[Row]) -> Iterator[Row]:
    if content["differences"] != list(differences):
        yield finding("differences", ERROR, "the differences of both snapshots are not those of the report")
    elements = [(own, one) for own, several in old.elements.items() for one in several]
    edited = {(own, state) for own, one in elements for state in one.changes}
    # Elements of connectors hold several rows, and are others without one of them.
    rewritten = {(own, state) for own, one in elements if one.state is None for state in one.changes}
    for row in differences:
        what = f"{operator_of(row)} {row['table']} {row['state']}"
        if row["operator_change"]:
            yield finding("differences", ERROR, f"{what}: the operator is {row['operator_change']}")
        elif row["note"]:
            operator = row["operator_uid_hash"]
            same = row["table"] == "operator_state" and _bytes_of(old.files, operator) == _bytes_of(new.files, operator)
            how = "cannot be compared, and its bytes are those of before" if same else "cannot be compared"
            yield finding("differences", NOTE if same else ERROR, f"{what}: {how}: {row['note']}")
        elif (
            row["removed"] and row["table"] == OPERATOR_STATE and (row["operator_uid_hash"], row["state"]) not in edited
        ):
            yield finding("differences", ERROR, f"{what}: {numbered(row['removed'], 'entry', 'entries')} removed")
        elif row["added"] and (row["operator_uid_hash"], row["state"]) not in rewritten:
            yield finding("differences", ERROR, f"{what}: {numbered(row['added'], 'entry', 'entries')} added")
        elif row["changed"] and (row["operator_uid_hash"], row["state"]) not in edited:
            yield finding("differences", ERROR, f"{what}: {numbered(row['changed'], 'entry', 'entries')} changed")
