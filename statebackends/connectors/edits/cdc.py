"""Changes of Flink CDC: the offset at which the stream phase continues, in MySQL's binary log or PostgreSQL's WAL.

A restored reader of PostgreSQL streams from ``lsn_proc``, or ``lsn`` where that is not given, and looks for the
transaction after ``lsn_commit`` (``PostgresStreamingChangeEventSource``, ``WalPositionLocator``,
``PostgresOffsetContext.Loader``): an offset that has only ``lsn``, as at the start of the stream phase, continues with
the first transaction that was committed after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pyspark_savepoint.formats.connectors.sources.cdc import STREAM, offset_object, offset_text, split_row
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState
from pyspark_savepoint.statebackends.connectors.edits.splits import Key, Row, Target, refuse_changes

START = "start_offset"
FIXED = ("phase", "table", "end_offset", "high_watermark", "finished_splits", "suspended")
#: Fields that an offset may have. Events and rows after a position are skipped.
FIELDS = ("file", "pos", "event", "row", "gtids", "ts_sec", "server_id", "kind")
SKIPPED = ("event", "row")
SPECIFIC = "SPECIFIC"
#: Fields of an offset of PostgreSQL, all numbers; the connector cannot read other ones.
LSN, PROCESSED, COMMITTED, TIME = "lsn", "lsn_proc", "lsn_commit", "ts_usec"
POSTGRES_FIELDS = (LSN, PROCESSED, COMMITTED, "txId", "xmin", TIME)
#: A log sequence number as PostgreSQL shows it.
LSN_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)
#: The invalid LSN 0: the server streams from what its replication slot has confirmed.
CONFIRMED = {"earliest": "0", "committed": "0"}


class _StreamEdits:
    """Edits of the only split of the stream phase; splits of the snapshot phase have no position."""

    key_columns = ("split_id",)
    log: str

    def key(self, value: Row) -> Key:
        """Return the id."""
        return (value["split_id"],)

    def target(self, target: Target) -> Row:
        """Return the offset: JSON, its fields, or a row of the table."""
        if isinstance(target, Mapping):
            return target if START in target or "split_id" in target else {START: json.dumps(dict(target))}
        if isinstance(target, str) and target.lstrip().startswith("{"):
            return {START: target}
        return {START: self.offset(target)}

    def offset(self, target: int | str) -> str:
        """Return the offset that a number or a word names; raise ValueError if there is none."""
        raise NotImplementedError

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        return {"split_id": row["stream"], START: row["position"]}

    def moved(self, value: Row, by: int, clamp: bool) -> NoReturn:
        """Raise ValueError: offsets in a log are not consecutive."""
        raise ValueError(f"offsets in {self.log} are not consecutive, so they cannot be moved by {by}")

    def changed(self, value: Row, row: Row) -> Row:
        """Return the split with another start."""
        refuse_changes(row, split_row(value), FIXED)
        wanted = row.get(START)
        if wanted is None or wanted == offset_text(value.get("starting")):
            return value
        given = wanted if isinstance(wanted, Mapping) else offset_object(str(wanted))
        if value["kind"] != STREAM:
            raise ValueError(
                f"split {value['split_id']} belongs to the snapshot phase, which has no offset in {self.log}"
            )
        return {**value, "starting": self.start(value, given, wanted)}

    def start(self, value: Row, given: Mapping[str, Any] | None, wanted: object) -> Any:
        """Return the start of a split for what is given, which is None if it is no offset."""
        raise NotImplementedError

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


class MySqlEdits(_StreamEdits):
    """Offsets in the binary log; fields that are not given stay."""

    log = "a binary log"

    def offset(self, target: int | str) -> NoReturn:
        """Raise ValueError: an offset has fields."""
        raise ValueError(
            f"an offset in the binary log has fields such as file and pos, or gtids, and cannot be {target!r}"
        )

    def start(self, value: Row, given: Mapping[str, Any] | None, wanted: object) -> Any:
        """Return the offset with the fields that are given."""
        return _moved(value["starting"], given, wanted)

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether records are read again, or may be: sets of transactions are not compared."""
        first, second = _fields(before), _fields(after)
        if first == second:
            return False
        return bool(first.get("gtids") or second.get("gtids")) or _place(second) < _place(first)


class PostgresEdits(_StreamEdits):
    """Log sequence numbers; other databases of the same connector base are rejected."""

    log = "the write-ahead log"

    def offset(self, target: int | str) -> str:
        """Return the offset of an LSN: a number, the text of PostgreSQL, or what the replication slot has confirmed."""
        text = str(target).strip()
        parts = LSN_TEXT.fullmatch(text)
        number = CONFIRMED.get(text.casefold(), text)
        if parts is not None:
            number = str(int(parts[1], 16) << 32 | int(parts[2], 16))
        if isinstance(target, bool) or not _is_number(number):
            raise ValueError(
                f"a position is an LSN, such as '16/B374D848', or {' or '.join(CONFIRMED)} (what the replication slot "
                f"has confirmed), and cannot be {target!r}"
            )
        return json.dumps({LSN: number})

    def start(self, value: Row, given: Mapping[str, Any] | None, wanted: object) -> str:
        """Return an offset of the fields that are given: all others except the time belong to the old position."""
        known = _fields(value)
        if known and LSN not in known:
            raise ValueError(
                f"only offsets of PostgreSQL can be changed, which have {LSN}; these have {', '.join(known)}"
            )
        fields = {name: str(field) for name, field in (given or {}).items() if field is not None}
        numbers = all(name in POSTGRES_FIELDS and (name == TIME or _is_number(field)) for name, field in fields.items())
        if LSN not in fields or not numbers or not re.fullmatch(r"-?[0-9]{1,19}", fields.get(TIME, "0"), re.ASCII):
            raise ValueError(f"an offset has {LSN}, may have {', '.join(POSTGRES_FIELDS[1:])}, and is not {wanted!r}")
        end = (offset_object(offset_text(value.get("ending")) or "") or {}).get(LSN)
        if end is not None and _unsigned(fields[LSN]) >= _unsigned(end):
            raise ValueError(f"the stream ends at {LSN} {end}, before {fields[LSN]}")
        kept = {TIME: known[TIME]} if known.get(TIME) is not None else {}
        return json.dumps({**kept, **fields}, separators=(",", ":"))

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether changes are read again, as far as the replication slot still has them."""
        first, second = _resumes_at(_fields(before)), _resumes_at(_fields(after))
        return first is not None and second is not None and second < first


def _fields(value: Row) -> dict[str, Any]:
    return offset_object(offset_text(value.get("starting")) or "") or {}


def _moved(before: Any, given: Mapping[str, Any] | None, wanted: object) -> Any:
    known = offset_object(offset_text(before) or "") or {}
    if given is None or not given or any(name not in FIELDS for name in given):
        raise ValueError(f"an offset has the fields {', '.join(FIELDS)}, and is not {wanted!r}")
    fields = {name: str(field) for name, field in given.items() if field is not None}
    moved = any(fields.get(name, known.get(name)) != known.get(name) for name in ("file", "pos"))
    if moved and known.get("gtids") and fields.get("gtids", known["gtids"]) == known["gtids"]:
        raise ValueError("the source continues at gtids and ignores file and pos: give gtids")
    if "pos" in fields and not _is_number(fields["pos"]):
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
    return len(name), name, int(position) if _is_number(position) else 0


def _is_number(text: str) -> bool:
    """Return whether a text is a long of Java from 0."""
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 1 << 63


def _unsigned(number: object) -> int:
    """Return an LSN as PostgreSQL compares it: a stream without an end has -1, the largest."""
    text = str(number)
    return int(text) % (1 << 64) if re.fullmatch(r"-?[0-9]{1,19}", text) else 0


def _resumes_at(offset: Mapping[str, Any]) -> int | None:
    at = offset.get(PROCESSED) or offset.get(LSN)
    return None if at is None else _unsigned(at)
