"""Jobs as JSON whose parts are of wrong types, missing, too deep, cyclic or double: one error of this package each."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.errors import OptionError, SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight.restore import check_snapshot
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import operator_at_plan
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraphHasher

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
HEX = "bc764cd8ddf7a0cff126f51c16239658"
PLAN = {
    "nodes": [
        {"id": 1, "type": "Source: a", "pact": "Data Source", "parallelism": 2},
        {"id": 2, "type": "map", "parallelism": 2, "predecessors": [{"id": 1, "ship_strategy": "FORWARD"}]},
        {"id": 3, "type": "b: Writer", "parallelism": 2, "predecessors": [{"id": 2, "ship_strategy": "HASH"}]},
    ],
    "settings": {
        "map": {
            "uid": "m",
            "uid_hash": None,
            "max_parallelism": 128,
            "slot_sharing_group": "g",
            "chaining": "HEAD",
            "legacy": False,
            "yielding": True,
            "ports": [0],
            "outputs": ["b: Writer"],
        }
    },
}
REST = {
    "plan": {"nodes": [{"id": HEX, "parallelism": 1, "description": "Source<br/>+- Map<br/>"}]},
    "vertices": [{"id": HEX, "maxParallelism": 128}],
}
JOB = {
    "parallelism": 2,
    "maxParallelism": 128,
    "flinkVersion": "2.2",
    "stateBackend": "rocksdb",
    "javaClasses": ["a.B"],
    "inferredBy": "declared",
    "classes": [],
    "operators": [
        {
            "uid": "accounts",
            "name": "n",
            "uidHash": None,
            "parallelism": 2,
            "key": "LONG",
            "states": {"total": "LONG", "m": {"kind": "MAP", "type": "LONG", "key": "STRING", "ttl": True}},
            "operatorStates": {"x": {"kind": "BROADCAST", "type": "LONG", "key": "STRING"}},
        },
        {"generatedId": HEX},
    ],
}
#: ``...`` leaves the part out.
PARTS: list[Any] = [
    ...,
    None,
    True,
    -1,
    1,
    3.5,
    10**30,
    "x",
    "1." + "9" * 5000,
    [1],
    {},
    {"id": 1},
    {"x": {}},
    [[]],
    [{}],
]
DOUBLE = {"nodes": [{"id": 1, "type": "map", "parallelism": 1}] * 2}
CYCLE = {
    "nodes": [
        {"id": 1, "type": "map", "parallelism": 1, "predecessors": [{"id": 2}]},
        {"id": 2, "type": "b", "parallelism": 1, "predecessors": [{"id": 1}]},
    ]
}
LONG = {
    "nodes": [{"id": 1, "type": "s", "parallelism": 1}]
    + [
        {"id": n, "type": str(n), "parallelism": 1, "predecessors": [{"id": n - 1, "ship_strategy": "FORWARD"}]}
        for n in range(2, 2000)
    ]
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[name], (*path, name))


def changed(job: Any, path: tuple[Any, ...], part: Any) -> Any:
    if not path:
        return None if part is ... else part
    made = copy.deepcopy(job)
    at = made
    for name in path[:-1]:
        at = at[name]
    if part is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = part
    return made


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return Snapshot.open(str(SHOP))


@pytest.mark.parametrize("job", [PLAN, REST, JOB], ids=["execution plan", "REST", "description"])
def test_each_part_of_a_wrong_type(snapshot: Snapshot, job: Any) -> None:
    """Some are right as they are; the others raise SavepointError, which is all that is suppressed."""
    for path in places(job):
        for part in PARTS:
            text = json.dumps(changed(job, path, part))
            with suppress(SavepointError):
                check_snapshot(snapshot, text)
            with suppress(SavepointError):
                operator_at_plan(snapshot, text, "map", StreamGraphHasher.V2)


@pytest.mark.parametrize("hasher", list(StreamGraphHasher))
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must be JSON"),
        ("/plans/job.json", "give its content"),
        ("{", "this is not JSON: Expecting"),
        ("[" * 100_000, "brackets too deep"),
        ("[]", "must be a JSON object"),
        (json.dumps(DOUBLE), "two nodes 1"),
        (json.dumps(CYCLE), "not reached from a source"),
        (json.dumps(LONG), "no such operator"),
    ],
    ids=["empty", "path", "cut", "deep", "list", "double", "cycle", "long"],
)
def test_what_is_said(snapshot: Snapshot, text: str, told: str, hasher: StreamGraphHasher) -> None:
    with pytest.raises(OptionError, match=told):
        operator_at_plan(snapshot, text, "map", hasher)
