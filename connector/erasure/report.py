"""The report of an erasure: as JSON, as a page for people, and its proof."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark_savepoint.erasure.files import NOT_IN_METADATA
from pyspark_savepoint.erasure.findings import FORM, VERSION
from pyspark_savepoint.erasure.report_schema import misfit
from pyspark_savepoint.erasure.sought import salted
from pyspark_savepoint.erasure.tables import COUNTS, operator_of, place_of, unknown_place
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.text.markdown import cell, table
from pyspark_savepoint.text.texts import numbered

Row = dict[str, Any]


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
        """Return the report of a JSON text; raise OptionError for another text, or one that was damaged."""
        try:
            content = parse_json(text)
        except ValueError:
            content = None
        if not isinstance(content, dict) or content.get("form") != FORM or content.get("version") != VERSION:
            raise OptionError(
                "this is not a report of an erasure", expected=f"JSON with form {FORM!r} and version {VERSION}"
            )
        damage = misfit(content)
        if damage is not None:
            raise OptionError(
                "the report of the erasure was damaged",
                found=damage,
                remedy="take it as it was written: erase --report",
            )
        return cls(content)

    @property
    def removed(self) -> int:
        """How many rows and elements were removed, or would be."""
        return sum(state["removed"] for operator in self.content["operators"] for state in operator["states"])

    @property
    def uids(self) -> dict[str, str]:
        """The uids of operators, by their hashes."""
        return {
            one["operator_uid_hash"]: one["operator_uid"] for one in self.content["operators"] if one["operator_uid"]
        }

    def rows(self) -> Iterator[Row]:
        """Yield a row per state: its operator, and its rows seen and removed."""
        for operator in self.content["operators"]:
            for state in operator["states"]:
                yield {"operator": operator["operator_uid"] or operator["operator_uid_hash"], **state}

    def notes(self) -> Iterator[str]:
        """Yield a line for what was not looked into, where keys still stand, and other files and snapshots."""
        for one in self.content["not_looked_into"]:
            size = "size unknown" if one["bytes"] is None else numbered(one["bytes"], "byte")
            yield f"not looked into: {unknown_place(one)}, {size}, {_hits(one['hits'])}: {one['why']}"
        for one in self.content["standing"]:
            inside = sum(hit["hits"] for hit in one["inside"])
            yield f"stays: {place_of(one)}: {one['equal']} equal, {inside} inside"
        before = self.content["before"]
        for one in before["files"]:
            if NOT_IN_METADATA in one["of"] and (one.get("hits") or "problem" in one):
                location = posixpath.join(before["path"], one["name"])
                yield f"not part of the snapshot: {location}: {one.get('problem') or _hits(one.get('hits', ()))}"
        for one in self.content["others"]:
            yield f"also in: {one['path']}: {one['note'] or _count_words(one)}"

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
    yield f"* before: {cell(content['before']['path'])}, {numbered(len(content['before']['files']), 'file')}"
    written = f"{cell(after['path'])}, {numbered(len(after['files']), 'file')}" if after else "nothing was written"
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
        (
            {**one, "operator": operator_of(one), "hits": hits_as_text(one["hits"])}
            for one in content["not_looked_into"]
        ),
    )
    yield from _section(
        "Where keys still stand",
        ("place", "equal", "inside"),
        (
            {"place": place_of(one), "equal": one["equal"], "inside": hits_as_text(one["inside"])}
            for one in content["standing"]
        ),
    )
    yield from _section("Other snapshots of the job", ("path", *COUNTS, "note"), content["others"])
    below = content.get("below")
    yield ""
    yield f"searched below: {cell(below)}" if below else "no folder was searched for them"
    for title in ("before", "after"):
        if content[title]:
            sections = (
                {**one, "of": ", ".join(one["of"]), "hits": hits_as_text(one.get("hits", ()))}
                for one in content[title]["files"]
            )
            yield from _section(f"Files {title}", ("name", "size", "sha256", "hits"), sections)


def _hits(hits: Iterable[Mapping[str, Any]]) -> str:
    return numbered(sum(hit["hits"] for hit in hits), "hit")


def _count_words(one: Mapping[str, Any]) -> str:
    words = {"keys": "row", "elements": "element", "standing": "other place", "in_files": "hit"}
    ends = {"keys": "", "elements": " of conditions", "standing": "", "in_files": " in files"}
    return ", ".join(numbered(one[name], word) + ends[name] for name, word in words.items() if one[name])


def _section(title: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from table(columns, rows)


def hits_as_text(hits: Iterable[Mapping[str, Any]]) -> str:
    """Return hits for people."""
    return "; ".join(
        f"{'certain' if one['certain'] else 'possible'}: {one['hits']} of {one['bytes']} bytes ({one['encoding']})"
        for one in hits
    )


def conditions_hashed(where: Mapping[str, Any], salt: bytes) -> dict[str, str]:
    """Return conditions as salted hashes, by what they are on."""
    return {name: salted(salt, str(condition)) for name, condition in where.items()}
