"""Changes of Flink CDC for MySQL: the offset in the binary log at which the stream phase continues."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pyspark_savepoint.formats.connectors.cdc import STREAM, offset_object, offset_text, split_row
from pyspark_savepoint.statebackends.connectors.source_state import SourceState
from pyspark_savepoint.statebackends.connectors.split_edits import Key, Row, Target, refuse_changes

START = "start_offset"
FIXED = ("phase", "table", "end_offset", "high_watermark", "finished_splits", "suspended")
#: Fields that an offset may have. Events and rows behind a position are skipped.
FIELDS = ("file", "pos", "event", "row", "gtids", "ts_sec", "server_id", "kind")
SKIPPED = ("event", "row")
SPECIFIC = "SPECIFIC"


class MySqlEdits:
    """Edits of the only split of the stream phase; splits of the snapshot phase have no position."""

    key_columns = ("split_id",)

    def key(self, value: Row) -> Key:
        """Return the id."""
        return (value["split_id"],)

    def target(self, target: Target) -> Row:
        """Return the offset: JSON, its fields, or a row of the table."""
        if isinstance(target, Mapping):
            return target if START in target or "split_id" in target else {START: json.dumps(dict(target))}
        if isinstance(target, str) and target.lstrip().startswith("{"):
            return {START: target}
        raise ValueError(
            f"an offset in the binary log has fields such as file and pos, or gtids, and cannot be {target!r}"
        )

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        return {"split_id": row["stream"], START: row["position"]}

    def moved(self, value: Row, by: int) -> NoReturn:
        """Raise ValueError: offsets in a binary log are not consecutive."""
        raise ValueError(f"offsets in a binary log are not consecutive, so they cannot be moved by {by}")

    def changed(self, value: Row, row: Row) -> Row:
        """Return the split with another start; fields that are not given stay."""
        refuse_changes(row, split_row(value), FIXED)
        wanted = row.get(START)
        if wanted is None or wanted == offset_text(value.get("starting")):
            return value
        given = wanted if isinstance(wanted, Mapping) else offset_object(str(wanted))
        if value["kind"] != STREAM:
            raise ValueError(
                f"split {value['split_id']} belongs to the snapshot phase, which has no offset in the binary log"
            )
        return {**value, "starting": _moved(value["starting"], given, wanted)}

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether records are read again, or may be: sets of transactions are not compared."""
        first, second = (offset_object(offset_text(each.get("starting")) or "") or {} for each in (before, after))
        if first == second:
            return False
        return bool(first.get("gtids") or second.get("gtids")) or _place(second) < _place(first)

    def pending(self, enumerator: object) -> Mapping[Key, Row]:
        """Return nothing: the enumerator has only splits of the snapshot phase."""
        return {}

    def with_pending(self, source: SourceState, changed: Mapping[Key, Row]) -> SourceState:
        """Return the source: the enumerator has only splits of the snapshot phase."""
        return source

    def added(self, source: SourceState, rows: Sequence[Row]) -> NoReturn:
        """Raise ValueError: the stream is one split."""
        raise ValueError(
            "no split can be added: the stream is one split, and the source creates those of the snapshot phase"
        )

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> NoReturn:
        """Raise ValueError: the enumerator counts the splits."""
        raise ValueError(
            "no split can be removed, the enumerator counts them: start_over reads the snapshot again, then all changes"
        )


def _moved(before: Any, given: Mapping[str, Any] | None, wanted: object) -> Any:
    known = offset_object(offset_text(before) or "") or {}
    if given is None or not given or any(name not in FIELDS for name in given):
        raise ValueError(f"an offset has the fields {', '.join(FIELDS)}, and is not {wanted!r}")
    fields = {name: str(each) for name, each in given.items() if each is not None}
    moved = any(fields.get(name, known.get(name)) != known.get(name) for name in ("file", "pos"))
    if moved and known.get("gtids") and fields.get("gtids", known["gtids"]) == known["gtids"]:
        raise ValueError("the source continues at gtids and ignores file and pos: give gtids")
    if "pos" in fields and not fields["pos"].isdigit():
        raise ValueError(f"pos is a number of bytes, not {fields['pos']!r}")
    if isinstance(before, dict):
        if not set(fields) <= {"file", "pos"}:
            raise ValueError("this release of the connector has only file and pos")
        return {"file": fields.get("file", before["file"]), "position": int(fields.get("pos", str(before["position"])))}
    fresh = {name: "0" for name in SKIPPED if name in known} if moved else {}
    kind = {"kind": SPECIFIC} if "kind" in known else {}
    return json.dumps({**known, **fresh, **kind, **fields}, separators=(",", ":"))


def _place(offset: Mapping[str, Any]) -> tuple[int, str, int]:
    name = str(offset.get("file") or "")
    position = str(offset.get("pos") or "0")
    return len(name), name, int(position) if position.isdigit() else 0
