"""The report of an erasure: as JSON, as a page for people, and its proof."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark_savepoint.erasure.erasing import FORM, VERSION, Erasing, files_of
from pyspark_savepoint.erasure.files import Searched
from pyspark_savepoint.erasure.patterns import certain_of
from pyspark_savepoint.erasure.sought import salted
from pyspark_savepoint.erasure.tables import HELD, operator_of, place_of
from pyspark_savepoint.execution.texts import numbered
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.redaction import printable

Row = dict[str, Any]
ERROR, NOTE = "error", "note"
COUNTS = ("before", "after", "added", "removed", "changed")


@dataclass(frozen=True)
class ErasureReport:
    """What an erasure found, removed, and could not look into; made by ``erase``.

    ``content`` is what :meth:`to_json` writes; keys and conditions are in it as salted hashes only. ``salt`` is the
    secret that made them, which is in neither JSON nor page: keep it apart. A report that was read has none.

    Example::

        report = sp.erase(keys=[1042], dry_run=True)
        report.removed, report.content["standing"]

    """

    content: Row = field(repr=False)
    salt: str | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        """Return what was removed, in a line."""
        unknown = len(self.content["not_looked_into"])
        what = "would be removed" if self.content["after"] is None else "removed"
        return f"<ErasureReport: {numbered(self.removed, 'row')} {what}, {numbered(unknown, 'state')} not looked into>"

    @classmethod
    def read(cls, text: str) -> ErasureReport:
        """Return the report of a JSON text; raise OptionError for another text."""
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if not isinstance(content, dict) or content.get("form") != FORM or content.get("version") != VERSION:
            raise OptionError(
                "this is no report of an erasure", expected=f"JSON with form {FORM!r} and version {VERSION}"
            )
        return cls(content)

    @property
    def removed(self) -> int:
        """How many rows and elements were removed, or would be."""
        return sum(state["removed"] for operator in self.content["operators"] for state in operator["states"])

    def rows(self) -> Iterator[Row]:
        """Yield a row per state: its operator, and its rows seen and removed."""
        for operator in self.content["operators"]:
            for state in operator["states"]:
                yield {"operator": operator["operator_uid"] or operator["operator_uid_hash"], **state}

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(self.content, indent=1)

    def to_markdown(self) -> str:
        """Return the report as a page for people."""
        return "\n".join(_page(self)) + "\n"


def _page(report: ErasureReport) -> Iterator[str]:
    content = report.content
    arguments, after = content["arguments"], content["after"]
    yield "# Erasure from the state of a Flink job"
    yield ""
    yield f"* when: {content['time']}, by pyspark-savepoint {content['package']}"
    yield f"* before: {_cell(content['before']['path'])}, {numbered(len(content['before']['files']), 'file')}"
    written = f"{_cell(after['path'])}, {numbered(len(after['files']), 'file')}" if after else "nothing was written"
    yield f"* after: {written}"
    yield f"* {numbered(len(arguments['keys']), 'key')}, of which this page has salted hashes only"
    yield f"* {numbered(report.removed, 'row')} removed" + ("" if after else " if it is written")
    yield from _section("Removed", ("operator", "table", "state", "seen", "removed"), report.rows())
    holds = (
        {**one, "operator": one["operator_uid"] or one["operator_uid_hash"]}
        for one in content["operators"]
        if one["key_type"] is not None
    )
    yield from _section("Keys that operators can hold", ("operator", "key_type", "can_hold", "cannot_hold"), holds)
    yield from _section(
        "Not looked into",
        ("operator", "table", "state", "bytes", "hits", "why"),
        ({**one, "operator": operator_of(one), "hits": _hits(one["hits"])} for one in content["not_looked_into"]),
    )
    yield from _section(
        "Where keys still stand",
        ("place", "equal", "inside"),
        (
            {"place": place_of(one), "equal": one["equal"], "inside": _hits(one["inside"])}
            for one in content["standing"]
        ),
    )
    yield from _section("Other snapshots of the job", ("path", *HELD, "note"), content["others"])
    below = content.get("below")
    yield ""
    yield f"searched below: {_cell(below)}" if below else "no folder was searched for them"
    for title in ("before", "after"):
        if content[title]:
            named = (
                {**one, "of": ", ".join(one["of"]), "hits": _hits(one.get("hits", ()))}
                for one in content[title]["files"]
            )
            yield from _section(f"Files {title}", ("name", "size", "sha256", "hits"), named)


def _section(title: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    lines = ["| " + " | ".join(_cell(row.get(name)) for name in columns) + " |" for row in rows]
    if not lines:
        yield "nothing"
        return
    yield "| " + " | ".join(columns) + " |"
    yield "|" + " --- |" * len(columns)
    yield from lines


def _cell(value: object) -> str:
    """Return a value as text of a page: a name is neither Markdown nor HTML, and no command of a terminal."""
    text = "" if value is None else printable(str(value).replace("\n", " "), line=True)
    return re.sub(r"([\\`*|\[])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def _hits(hits: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{'certain' if one['certain'] else 'possible'}: {one['hits']} of {one['bytes']} bytes ({one['encoding']})"
        for one in hits
    )


def finding(check: str, severity: str, evidence: str) -> Row:
    """Return a finding about an erasure."""
    return {"check": check, "severity": severity, "evidence": evidence}


def verified(
    report: ErasureReport,
    new: Erasing,
    old: Erasing | None,
    given: tuple[Sequence[str], Mapping[str, Any]],
    differences: Sequence[Row],
    others_removed: Iterable[str],
    accept: Collection[str],
) -> Iterator[Row]:
    """Yield findings about an erasure, none of severity ``error`` if it is proved.

    Args:
        report: What was written about it.
        new: The new savepoint, examined; ``old`` is the older one, of which only files were searched.
        old: The older snapshot; None if it is gone.
        given: The salted hashes of the keys, and the conditions.
        differences: What ``diff`` counts now.
        others_removed: What is missing beside the keys.
        accept: Places where keys may stand, as :func:`place_of` names them.

    """
    content = report.content
    hashes, where = given
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
        if one.removed:
            yield finding("rows", ERROR, f"{numbered(one.removed, 'row')} of {operator} {table} {state} still there")
    yield from _standing(new, accept)
    yield from _in_files(content, new, accept)
    for unread in new.looked.unread:
        yield finding("unread", NOTE, f"{operator_of(unread)} {unread['table']}: {unread['why']}")
    if old is not None:
        yield from _only_removals(content, new, old, differences)
    for why in others_removed:
        yield finding("differences", ERROR, why)


def _same_files(check: str, then: Sequence[Row], now: Sequence[Row]) -> Iterator[Row]:
    before, after = ({row["name"]: row["sha256"] for row in rows if row["sha256"]} for rows in (then, now))
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield finding(check, ERROR, f"file {name} is missing")
        elif name not in before:
            yield finding(check, ERROR, f"file {name} is not in the report")
        elif before[name] != after[name]:
            yield finding(check, ERROR, f"file {name} has another SHA-256 than in the report")


def _standing(new: Erasing, accept: Collection[str]) -> Iterator[Row]:
    for one in new.looked.standing.values():
        location = place_of(one.row())
        certain = certain_of(one.hits)
        if one.equal or certain:
            severity = NOTE if location in accept else ERROR
            yield finding(
                "standing", severity, f"{location}: {one.equal} values equal to a key, {certain} with one inside"
            )
        elif one.hits:
            yield finding(
                "standing", NOTE, f"{location}: possible hits of short patterns: {_hits(one.row()['inside'])}"
            )


def _in_files(content: Row, new: Erasing, accept: Collection[str]) -> Iterator[Row]:
    known = {
        row["name"]: {(h["encoding"], h["bytes"]): h["hits"] for h in row.get("hits", ())}
        for row in content["after"]["files"]
    }
    accepted = {one.place["operator_uid_hash"] for one in new.looked.standing.values() if place_of(one.row()) in accept}
    inside = {operator for one in new.files for operator, _ in one.of if one.name.startswith("_metadata:")}
    for one in new.files:
        operators = {operator for operator, _ in one.of if operator}
        allowed = bool(operators & accepted) or (one.name == "_metadata" and bool(inside & accepted))
        for (name, certain, size), count in sorted(one.hits.items()):
            what = f"{one.name}: {numbered(count, 'hit')} of {size} bytes ({name})"
            if certain:
                yield finding("files", NOTE if allowed else ERROR, what)
            elif count != known.get(one.name, {}).get((name, size), 0):
                yield finding("files", ERROR, f"{what}, other than in the report")


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
        elif row["added"] and (row["operator_uid_hash"], row["state"]) not in rewritten:
            yield finding("differences", ERROR, f"{what}: {numbered(row['added'], 'entry', 'entries')} added")
        elif row["changed"] and (row["operator_uid_hash"], row["state"]) not in edited:
            yield finding("differences", ERROR, f"{what}: {numbered(row['changed'], 'entry', 'entries')} changed")


def conditions_hashed(where: Mapping[str, Any], salt: bytes) -> dict[str, str]:
    """Return conditions as salted hashes, by what they are on."""
    return {name: salted(salt, str(condition)) for name, condition in where.items()}
