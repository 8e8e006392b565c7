"""Flink CDC: splits of the snapshot phase and of the stream phase that follows it (layout from source code).

    split    := i32 1  [base 4 on: bool catalogFirst]  utf table  utf splitId  utf keyType  utf start  utf end
                       Offset high  schemas                                                                 a snapshot
              | i32 2  utf splitId  utf ""  Offset start  Offset end
                       i32 n {utf table  utf splitId  utf start  utf end  [base: utf offsetFactory]  Offset high
                              [base 4 on: bool catalogFirst]}[n]
                       schemas  i32 totalFinished  [MySQL 4, base 5 on: bool suspended]   MySQL 4 of 2.2.0 has no flag
                       [base 6: bool snapshotCompleted]                                                     a stream
    schemas  := i32 n {[base 4 on: bool catalogFirst]  utf table  blob JSON (MySQL 1: utf)}[n]
    Offset   := bool [blob JSON]     MySQL 1: bool [utf file  i64 position]

MySQL has its own versions (1, 3, 4), the other connectors share a base (3 to 6). MySQL 1 lacks ``totalFinished``.
``start`` and ``end`` of a snapshot, and ``offsetFactory``, are hex digits of a Java object stream, which are kept.
Enumerators, which begin with the version of their splits, are shown as bytes. Connector: ``MySqlSplitSerializer``,
``SourceSplitSerializer``, ``FinishedSnapshotSplitInfo``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect, Refusal
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Key,
    S,
    SplitEdits,
    Target,
    refuse_changes,
)
from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
    unknown_version,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import TEXT, UTF, Layouts, Record, reader, variants, writer
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.encodings import BOOL, I32, I64, Encoding, many, optional, sized
from pyspark_savepoint.formats.json_text import parse_json

SNAPSHOT, STREAM = 1, 2
#: Versions of enumerators.
MYSQL_ENUMERATORS, BASE_ENUMERATORS = range(1, 6), range(1, 9)
WORDS = {SNAPSHOT: "snapshot", STREAM: "stream"}
#: The id of the only split of the stream phase.
MYSQL_STREAM, BASE_STREAM = "binlog-split", "stream-split"
#: Every offset of MySQL has at least one of these fields.
MYSQL_FIELDS = frozenset({"file", "gtids", "kind"})
#: Strings in JSON, such as MongoDB's resume token, which is JSON itself; an unclosed string takes the rest.
STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"?')


def _read_json(view: DataInputView, what: str) -> str:
    text = TEXT.read(view, what)
    if offset_object(text) is None:
        view.fail(f"{what}: a flat JSON object")
    return text


def offset_object(text: str) -> dict[str, Any] | None:
    """Return a flat JSON object, or None."""
    bare = STRINGS.sub("", text)
    if not bare.startswith("{") or bare.count("{") > 1 or "[" in bare:
        return None
    try:
        offset: dict[str, Any] = parse_json(text)
    except ValueError:
        return None
    return offset


#: A flat JSON object in UTF-8, with its length.
OFFSET = optional(sized(Encoding(_read_json, TEXT.write, 0)))
#: A flag at the end; None where it is missing, because the oldest release with this version does not write it.
LAST_FLAG: Encoding[bool | None] = Encoding(
    lambda view, what: view.read_bool(what) if view.remaining else None,
    lambda out, value: None if value is None else out.write_bool(value),
    0,
)


def _split(
    offset: Encoding[Any],
    tail: Mapping[str, Encoding[Any]],
    catalog: Mapping[str, Encoding[Any]] = MappingProxyType({}),
    factory: Mapping[str, Encoding[Any]] = MappingProxyType({}),
    schema: Encoding[Any] = sized(TEXT),  # noqa: B008
) -> Encoding[Any]:
    """Return the layout of splits; ``tail`` ends a split of the stream phase.

    ``catalog`` precedes tables and follows finished splits.
    """
    schemas = many(Record(**catalog, table=UTF, schema=schema))
    finished = Record(table=UTF, split_id=UTF, start=UTF, end=UTF, **factory, high=offset, **catalog)
    return variants(
        {
            SNAPSHOT: Record(
                **catalog, table=UTF, split_id=UTF, key_type=UTF, start=UTF, end=UTF, high=offset, schemas=schemas
            ),
            STREAM: Record(
                split_id=UTF,
                unused=UTF,
                starting=offset,
                ending=offset,
                finished=many(finished),
                schemas=schemas,
                **tail,
            ),
        },
        "kind",
    )


_CATALOG: Mapping[str, Encoding[Any]] = {"catalog_first": BOOL}
_FACTORY: Mapping[str, Encoding[Any]] = {"offset_factory": UTF}
_TOTAL: Mapping[str, Encoding[Any]] = {"total_finished": I32}
_SUSPENDED: Mapping[str, Encoding[Any]] = {**_TOTAL, "suspended": BOOL}
MYSQL: Layouts = MappingProxyType(
    {
        1: _split(optional(Record(file=UTF, position=I64)), {}, schema=UTF),
        3: _split(OFFSET, _TOTAL),
        4: _split(OFFSET, {**_TOTAL, "suspended": LAST_FLAG}),
    }
)
BASE: Layouts = MappingProxyType(
    {
        3: _split(OFFSET, _TOTAL, {}, _FACTORY),
        4: _split(OFFSET, _TOTAL, _CATALOG, _FACTORY),
        5: _split(OFFSET, _SUSPENDED, _CATALOG, _FACTORY),
        6: _split(OFFSET, {**_SUSPENDED, "snapshot_completed": BOOL}, _CATALOG, _FACTORY),
    }
)


def offset_text(offset: Any) -> str | None:
    """Return an offset as JSON."""
    if isinstance(offset, dict):
        return json.dumps({"file": offset["file"], "pos": str(offset["position"])})
    return offset  # type: ignore[no-any-return]


def split_row(value: Mapping[str, Any]) -> Row:
    """Return the columns of a split."""
    return {
        "split_id": value["split_id"],
        "phase": WORDS[value["kind"]],
        "table": value.get("table"),
        "start_offset": offset_text(value.get("starting")),
        "end_offset": offset_text(value.get("ending")),
        "high_watermark": offset_text(value.get("high")),
        "tables": [schema["table"] for schema in value["schemas"]],
        "finished_splits": value.get("total_finished"),
        "suspended": value.get("suspended"),
    }


def _positions(value: Row) -> list[Position]:
    if value["kind"] == SNAPSHOT:
        return []
    return [Position(value["split_id"], None, offset_text(value["starting"]))]


def _is_mysql(value: Row) -> bool:
    offsets = [offset_object(offset_text(offset) or "") for offset in (value.get("starting"), value.get("high"))]
    if value["kind"] == STREAM and value["split_id"] != MYSQL_STREAM:
        return False
    return all(not offset or bool(MYSQL_FIELDS & offset.keys()) for offset in offsets)


def _check_mysql(values: Sequence[Row]) -> None:
    if not all(map(_is_mysql, values)):
        raise ValueError("a split or an offset has no fields of a MySQL offset")


def _check_base(values: Sequence[Row]) -> None:
    if any(value["kind"] == STREAM and value["split_id"] != BASE_STREAM for value in values):
        raise ValueError(f"the split of the stream is not named {BASE_STREAM}")


COLUMNS = columns(
    phase=pa.string(),
    table=pa.string(),
    start_offset=pa.string(),
    end_offset=pa.string(),
    high_watermark=pa.string(),
    tables=pa.list_(pa.string()),
    finished_splits=pa.int32(),
    suspended=pa.bool_(),
)
MYSQL_CDC = ConnectorKind[Row](
    "mysql_cdc",
    SPLITS,
    COLUMNS,
    reader(MYSQL, "a split"),
    writer(MYSQL),
    lambda value: [split_row(value)],
    check=_check_mysql,
    positions=_positions,
)
CDC = ConnectorKind[Row](
    "cdc",
    SPLITS,
    COLUMNS,
    reader(BASE, "a split"),
    writer(BASE),
    lambda value: [split_row(value)],
    check=_check_base,
    positions=_positions,
)


def _enumerator(name: str, versions: range, splits: Layouts) -> ConnectorKind[bytes]:
    def decode(version: int, view: DataInputView) -> bytes:
        if version not in versions:
            raise unknown_version(version, versions)
        own = view.read_i32("the version of splits")
        if own not in splits:
            view.fail("a version of splits", own)
        view.position -= 4
        return view.read(view.remaining)

    return ConnectorKind[bytes](
        name,
        SOURCE_COORDINATOR,
        columns(payload=pa.binary()),
        decode,
        lambda _, value, out: out.write(value),
        lambda value: [{"payload": value}],
        states=(),
        by_content=False,
    )


MYSQL_CDC_ENUMERATOR = _enumerator("mysql_cdc", MYSQL_ENUMERATORS, MYSQL)
CDC_ENUMERATOR = _enumerator("cdc", BASE_ENUMERATORS, BASE)


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


class _StreamEdits(SplitEdits):
    """Edits of the only split of the stream phase; splits of the snapshot phase have no position."""

    key_columns = ("split_id",)
    log: str

    def key(self, value: Row) -> Key:
        """Return the id."""
        return (value["split_id"],)

    def position_columns(self, target: Target) -> Row:
        """Return the offset: its fields, a row of the table, or what ``target`` takes."""
        if isinstance(target, Mapping) and START not in target and "split_id" not in target:
            return {START: json.dumps(dict(target))}
        return super().position_columns(target)

    def target(self, target: int | str) -> Row:
        """Return the offset, which may be JSON."""
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
        fields = wanted if isinstance(wanted, Mapping) else offset_object(str(wanted))
        if value["kind"] != STREAM:
            raise ValueError(
                f"split {value['split_id']} belongs to the snapshot phase, which has no offset in {self.log}"
            )
        return {**value, "starting": self.start(value, fields, wanted)}

    def start(self, value: Row, given: Mapping[str, Any] | None, wanted: object) -> Any:
        """Return the start of a split for what is given, which is None if it is no offset."""
        raise NotImplementedError

    def added(self, source: S, rows: Sequence[Row]) -> NoReturn:
        """Raise ValueError: the stream is one split."""
        raise ValueError(
            "no split can be added: the stream is one split, and the source creates those of the snapshot phase"
        )

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> NoReturn:
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


CONNECTORS = (
    Connector(
        "mysql_cdc",
        (MYSQL_CDC, MYSQL_CDC_ENUMERATOR),
        rank=6,
        versions="1, 3, 4",
        changes="`with_offsets`",
        proof="source",
        edits=MySqlEdits(),
        effects=(
            Effect(
                "Flink CDC for MySQL: `with_offsets`",
                "start of the stream: fields that are given, events to skip 0",
                "nothing",
                "reads from there (not tried)",
            ),
        ),
        refusals=(
            Refusal("Flink CDC: `file` and `pos` where `gtids` decide. Databases other than MySQL and PostgreSQL"),
        ),
    ),
    Connector(
        "cdc",
        (CDC, CDC_ENUMERATOR),
        about="Postgres, Oracle, SQL Server, MongoDB",
        rank=6,
        versions="3 to 6",
        changes="`with_offsets` of Postgres",
        proof="source",
        edits=PostgresEdits(),
        retention="PostgreSQL sends nothing older than confirmed_flush_lsn of the replication slot "
        "(pg_replication_slots), which each completed checkpoint of the job may have moved",
        effects=(
            Effect(
                "Flink CDC for PostgreSQL: `with_offsets`",
                "start of the stream: `lsn`, and the fields that are given with it",
                "nothing",
                "sends the transactions committed after it, but none before the position that the replication slot has "
                "confirmed (not tried)",
            ),
        ),
    ),
)
