"""Keys that are looked up in files of RocksDB: only the necessary blocks are read, and every key is found."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.benchmarks.data import UID
from tests.benchmarks.rocksdb_data import write_native_savepoint
from tests.corpus.expected import RecordedSnapshot, read
from tests.corpus.written import EXACT

pytestmark = pytest.mark.many_sets

KEYS = 150_000
AUDITED = Path(__file__).parents[2] / "audited_read.py"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_native_savepoint(tmp_path_factory.mktemp("look-up") / "snapshot", "string", KEYS)


def rows_of(path: Path, **options: Any) -> dict[Any, Any]:
    table = open_table(TableRequest(str(path), uid=UID, **options))
    rows = [row for part in table.partitions(3) for batch in part.batches() for row in batch.to_pylist()]
    found = {row["key"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_any_keys_are_found_with_all_their_states(snapshot: Path) -> None:
    whole = rows_of(snapshot)
    assert len(whole) == KEYS
    some = list(whole)[:: KEYS // 300]

    found = rows_of(snapshot, keys=json.dumps([*some, "not there", ""]))

    assert found == {key: whole[key] for key in some}


def test_little_memory_finds_the_same(snapshot: Path) -> None:
    some = list(rows_of(snapshot, key_groups=((3, 3), (77, 77))))[:50]

    for memory in (1 << 10, 1 << 14, 1 << 20):
        assert set(rows_of(snapshot, keys=json.dumps(some), memory=memory)) == set(some)


def test_a_key_that_begins_as_another_is_found_once(snapshot: Path) -> None:
    keys = sorted(rows_of(snapshot, key_groups=((9, 9),)))
    begun = [key for key, following in pairwise(keys) if following.startswith(key)]

    assert set(rows_of(snapshot, keys=json.dumps(keys))) == set(keys)
    assert set(rows_of(snapshot, keys=json.dumps(keys[:1] + begun))) == {keys[0], *begun}


def audited(**request: Any) -> dict[str, Any]:
    command = [sys.executable, str(AUDITED), json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def test_only_the_blocks_of_a_key_are_read(snapshot: Path) -> None:
    (key, *_) = rows_of(snapshot, key_groups=((5, 5),))
    size = sum(path.stat().st_size for path in snapshot.iterdir())

    one = audited(path=str(snapshot), uid=UID, keys=json.dumps([key]))
    group = audited(path=str(snapshot), uid=UID, key_groups=[[5, 5]])
    whole = audited(path=str(snapshot), uid=UID)

    assert (one["rows"], whole["rows"]) == (1, KEYS)
    assert whole["bytes"] > size
    # The end of each table file, where its index is, and a block of each column family.
    ends = 65_536 * sum(path.suffix == ".sst" for path in snapshot.iterdir())
    assert one["bytes"] < group["bytes"]
    assert one["bytes"] < ends + 80_000


CASES = ("2.2.1-forst-native", "2.2.1-rocksdb-native", "2.2.1-rocksdb-incr-checkpoint")
#: Operators of all kinds of keys: fixed, variable, composite, a POJO whose hash is unknown; maps, lists and windows.
TABLES: tuple[dict[str, Any], ...] = (
    {"uid": "kv-long"},
    {"uid": "kv-long", "state": "map-sl", "flatten": True},
    {"uid": "kv-long", "state": "list-int", "flatten": True},
    {"uid": "kv-string"},
    {"uid": "kv-tuple", "state": "map-tuple-pojo"},
    {"uid": "kv-pojo"},
    {"uid": "window-tumbling-process", "table": "window_state"},
)


@pytest.mark.parametrize("options", TABLES, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("case", CASES)
def test_looked_up_rows_are_those_of_the_whole_table(case: str, options: dict[str, Any], corpus: Path) -> None:
    path = RecordedSnapshot(corpus / "lab" / case).path
    whole = read(TableRequest(path, decode=EXACT, **options)).to_pylist()
    keys = list({repr(row["key"]): row["key"] for row in whole}.values())[::9]

    found = read(TableRequest(path, decode=EXACT, keys=json.dumps(keys), **options), 4).to_pylist()

    assert sorted(map(repr, found)) == sorted(repr(row) for row in whole if row["key"] in keys)
    assert found
