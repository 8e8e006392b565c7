"""The same job gives the same rows, whatever backend and format wrote them and however they are read."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.corpus.expected import RecordedSnapshot, read
from tests.corpus.written import EXACT
from tests.oracle.compare import comparable

#: The snapshot with which all others are compared, row by row.
FIRST = "2.2.1-hashmap-canonical"
#: The heap format, RocksDB full and incremental, ForSt; compressed; two-byte prefixes of keys; other releases.
OTHERS = (
    "1.18.1-rocksdb-canonical",
    "1.20.5-hashmap-native",
    "2.2.1-forst-native",
    "2.2.1-rocksdb-canonical-maxp1000",
    "2.2.1-rocksdb-incr-checkpoint",
    "2.2.1-rocksdb-native",
    "2.3.0-hashmap-canonical-compressed",
)
TABLES: tuple[dict[str, Any], ...] = (
    {"uid": "kv-long", "state": "v-long,v-string,v-double,list-int,reduce-long,agg-avg,ttl-long,ttl-list,ttl-map"},
    {"uid": "kv-long", "state": "map-ss", "flatten": True},
    {"uid": "kv-long", "table": "timers"},
    {"uid": "kv-string", "state": "big-dec,instant,bytes,strings"},
    {"uid": "kv-tuple", "state": "tuple3,pojo,row,either,map-si"},
    {"uid": "kv-pojo"},
    {"uid": "window-tumbling-reduce", "table": "window_state"},
    {"uid": "window-tumbling-process", "table": "window_state"},
    {"uid": "op-list", "state": "op-tuples"},
)
#: Parallelisms above and below those of the writing jobs, with much and with little memory.
READINGS = ((1, 32 << 20, 32768), (7, 1 << 14, 100))


def rows_of(path: str, reading: tuple[int, int, int], **options: Any) -> Counter[object]:
    parallelism, memory, batch_rows = reading
    request = TableRequest(path, decode=EXACT, memory=memory, batch_rows=batch_rows, **options)
    return Counter(comparable(_plain(row)) for row in read(request, parallelism).to_pylist())


def _plain(value: Any) -> Any:
    """Rows in terms that compare: columns and entries of maps have no order."""
    if isinstance(value, dict):
        return [[name, _plain(value[name])] for name in sorted(value)]
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return sorted(items, key=repr) if value and all(isinstance(item, tuple) for item in value) else items
    return list(map(_plain, value)) if isinstance(value, tuple) else repr(value)


@lru_cache
def first_rows(path: str, table: int) -> Counter[object]:
    return rows_of(path, READINGS[0], **TABLES[table])


@pytest.mark.parametrize("table", range(len(TABLES)), ids=lambda i: f"{TABLES[i]['uid']}-{i}")
@pytest.mark.parametrize("case", OTHERS)
def test_rows_are_those_of_the_canonical_savepoint(case: str, table: int, corpus: Path) -> None:
    expected = first_rows(RecordedSnapshot(corpus / "lab" / FIRST).path, table)
    assert expected

    for reading in READINGS:
        assert rows_of(RecordedSnapshot(corpus / "lab" / case).path, reading, **TABLES[table]) == expected
