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
from typing import Any

import pyarrow as pa

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
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.structs import BOOL, I32, I64, Encoding, many, optional, sized

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
