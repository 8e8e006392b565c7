"""Jobs go on under other keys: real Flink finds the state of each key where ``rekey`` has put it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyspark_savepoint
from tests.oracle.evolution import Job, evolve
from tests.oracle.flink import BACKENDS, PATIENCE

pytestmark = [pytest.mark.flink]

COUNT = 40
STATES = {"n": "LONG", "l": {"kind": "LIST", "type": "STRING"}, "m": {"kind": "MAP", "key": "STRING", "type": "LONG"}}
BASES = (("hashmap", "CANONICAL"), ("hashmap", "NATIVE"), ("rocksdb", "NATIVE"))


def job_of(key: str, name: str, backend: str, **more: Any) -> Job:
    """A job that adds to the list of each of its keys, which it makes of the numbers up to COUNT."""
    operators = [{"uid": "keyed", "key": key, "states": STATES}]
    settings = {"stateBackend": backend, "conf": dict(BACKENDS[backend])}
    return {"parallelism": 2, "operators": operators, "name": name, "count": COUNT, **settings, **more}


def texts(batch: pa.RecordBatch) -> pa.Array:
    return pc.binary_join_element_wise("text", batch["key"].cast(pa.string()), " ")


def pairs(batch: pa.RecordBatch) -> pa.Array:
    return pa.StructArray.from_arrays([batch["key"], texts(batch)], ["f0", "f1"])


#: The keys that the harness makes of a number, by their types.
KEYS = {"STRING": texts, "TUPLE<LONG, STRING>": pairs, "INT": None}


def test_state_is_found_under_its_new_key(flink_version: str, tmp_path: Path) -> None:
    fill = [
        job_of("LONG", f"{backend} {form}", backend, format=form, savepoint=str(tmp_path / f"{backend}-{form}"))
        for backend, form in BASES
    ]
    assert all(one == {"ok": True} for one in evolve(flink_version, tmp_path / "fill", fill, PATIENCE))
    going, found = [], {}
    for backend, form in BASES:
        base = pyspark_savepoint.open(tmp_path / f"{backend}-{form}").remove_operator("numbers")
        for number, (kind, keys) in enumerate(KEYS.items()):
            path, again = (tmp_path / f"{backend}-{form}-{number}-{what}" for what in ("new", "again"))
            base.rekey("keyed", keys, types={"key": kind}).write(path)
            told = {"restore": str(path), "format": "CANONICAL", "savepoint": str(again)}
            going.append(job_of(kind, f"{backend} {form} {kind}", backend, **told))
            found[again] = kind
    answers = evolve(flink_version, tmp_path / "going", going, PATIENCE)
    assert all(one == {"ok": True} for one in answers), answers
    for again in found:
        rows = list(pyspark_savepoint.open(again).keyed_state("keyed").rows())
        assert len(rows) == COUNT
        assert {len(row["l"]) for row in rows} == {2}  # of the first job, and of the second
        assert {len(row["m"]) for row in rows} == {1}
