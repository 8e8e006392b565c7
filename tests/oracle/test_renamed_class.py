"""Classes that moved to another package: real Flink restores them after ``rename_class``, and refuses them before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from tests.oracle.compare import differences
from tests.oracle.evolution import Job, evolve
from tests.oracle.flink import BACKENDS, PATIENCE

pytestmark = [pytest.mark.flink]

OLD, NEW = "evolve.Order", "com.shop.orders.Purchase"
COLOR, HUE = "evolve.Color", "com.shop.Hue"
LINE, POSITION = "evolve.Line", "com.shop.orders.Position"
POJO = f"POJO<{OLD}>(color ENUM<{COLOR}>(RED, GREEN), id LONG, line POJO<{LINE}>(count INT, name STRING))"
KEYED: Job = {
    "uid": "keyed",
    "key": "LONG",
    "states": {
        "order": POJO,
        "lines": {"kind": "LIST", "type": f"POJO<{LINE}>(count INT, name STRING)"},
        "orders": {"kind": "MAP", "key": f"ENUM<{COLOR}>(RED, GREEN)", "type": POJO},
        "timed": {"type": POJO, "ttl": True},
        "n": "LONG",
    },
    "timers": {"t": "VOID"},
}
PLAIN: Job = {
    "uid": "plain",
    "operatorStates": {
        "list": {"kind": "LIST", "type": POJO},
        "union": {"kind": "UNION", "type": f"POJO<{LINE}>(count INT, name STRING)"},
        "rates": {"kind": "BROADCAST", "key": "STRING", "type": POJO},
    },
}
JOB: Job = {"parallelism": 2, "operators": [KEYED, PLAIN]}
BASES = (("hashmap", "CANONICAL"), ("hashmap", "NATIVE"), ("rocksdb", "NATIVE"), ("rocksdb", "CANONICAL"))


def renamed(value: Any) -> Any:
    """The same with the new names, also as text of JSON."""
    text = json.dumps(value)
    for old, new in ((OLD, NEW), (COLOR, HUE), (LINE, POSITION)):
        text = text.replace(old, new)
    return json.loads(text)


def on(backend: str) -> dict[str, Any]:
    return {"stateBackend": backend, "conf": dict(BACKENDS[backend])}


def test_state_of_moved_classes(flink_version: str, tmp_path: Path) -> None:
    jobs = [
        {
            **JOB,
            **on(backend),
            "name": name,
            "held": "fill",
            "count": 30,
            "format": form,
            "savepoint": str(tmp_path / name),
        }
        for backend, form in BASES
        for name in [f"{backend}-{form}"]
    ]
    assert all("error" not in one for one in evolve(flink_version, tmp_path / "fill", jobs, PATIENCE))
    restores: list[Job] = []
    for backend, form in BASES:
        base = pyspark_savepoint.open(tmp_path / f"{backend}-{form}")
        new = base.rename_class(OLD, NEW).rename_class(COLOR, HUE).rename_class(LINE, POSITION)
        path = new.write(tmp_path / f"new-{backend}-{form}").path
        restores.append({**JOB, **on(backend), "restore": str(base.path)})
        restores.append({**renamed(JOB), **on(backend), "restore": str(path)})
    other = "rocksdb"
    restores.append({**renamed(JOB), **on(other), "restore": str(tmp_path / "new-hashmap-CANONICAL")})
    restores.append({**renamed(JOB), "restore": str(tmp_path / "hashmap-CANONICAL")})
    named = [{**job, "name": f"read {number}", "held": "read"} for number, job in enumerate(restores)]
    answers = evolve(flink_version, tmp_path / "read", named, PATIENCE)
    assert "error" in answers[-1]  # without the new names
    before = [one["found"] for one in answers[:-2:2]]
    after = [one.get("found", one) for one in (*answers[1:-1:2], answers[-2])]
    for place, found in enumerate(after):
        wanted = renamed(before[place if place < len(before) else 0])
        operators = [
            {"uid": uid, "states": [{"name": name, "entries": entries} for name, entries in states.items()]}
            for uid, states in wanted.items()
        ]
        assert sum(len(state["entries"]) for one in operators for state in one["states"]) > 100
        assert differences({"operators": operators}, found) == []
