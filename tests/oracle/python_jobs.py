"""Real PyFlink restores what was written for its operators: ``python -m tests.oracle.python_jobs [FOLDER]``.

``FOLDER`` (by default below the temporary one) gets a venv with ``apache-flink`` of 1.20, from the package index. The
states of three operators of a real job, with keys that are texts, pickled tuples and typed tuples, are read, changed,
written with new keys and other timers, and read by PyFlink itself, which prints what it has of every key. It then
restores another copy, in which Spark replaced states with ``with_state`` and removed keys with ``remove_keys``. The
command ends with an error where PyFlink does not find what was written.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from pyspark_savepoint import OperatorIdentifier, Savepoint
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from tests.data import unpacked
from tests.statebackends.python.test_pyflink_job import PICKLED_KEYS, STRING_KEYS, TUPLE_KEYS
from tests.statebackends.python.test_pyflink_writes import BYTES, read, write

RELEASE = "apache-flink==1.20.*"
PACKAGES = (
    "java.lang",
    "java.lang.reflect",
    "java.util",
    "java.util.concurrent",
    "java.net",
    "java.time",
    "java.text",
    "java.nio",
)
OPENED = " ".join(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in PACKAGES)
#: Operators, with a key that no row has, and the time of the timer that it gets.
NEW_KEYS: dict[str, Any] = {STRING_KEYS: "k20", PICKLED_KEYS: {"f0": 20, "f1": "z"}, TUPLE_KEYS: {"f0": 0, "f1": "k20"}}
FIRES = 99
JOB = Path(__file__).with_name("python_job.py")


def changed(row: dict[str, Any]) -> dict[str, Any]:
    """A row with another value in states of every kind."""
    return row | {
        "v_long": -row["v_long"],
        "v_string": row["v_string"] + "!",
        "list": [*row["list"], 7777],
        "map": [*row["map"], ("new", -1)],
        "v_row": row["v_row"] | {"name": "changed"},
        "v_list": [*row["v_list"], None],
    }


def write_changes(path: str) -> dict[str, dict[str, Any]]:
    """Change the states of all operators; return by key what PyFlink is to find."""
    wanted = {}
    for uid, new in NEW_KEYS.items():
        rows = read(path, uid, pyTypes=BYTES)
        made = [changed(row) for row in rows.to_pylist()]
        made.append(made[0] | {"key": new, "v_long": 42})
        states = ",".join(name for name in rows.schema.names if name != "key")
        write(path, uid, pa.Table.from_pylist(made, schema=rows.schema), pyTypes=BYTES, state=states)
        timers = read(path, uid, table="timers")
        kept = [timer for timer in timers.to_pylist() if timer["domain"] == "processing"]
        kept.append({"key": new, "timestamp": FIRES, "domain": "event", "service": "user-timers"})
        write(path, uid, pa.Table.from_pylist(kept, schema=timers.schema), table="timers")
        wanted.update({shown_key(row["key"]): row for row in made})
    return wanted


#: Keys that ``remove_keys`` removes of each operator.
REMOVED: dict[str, list[Any]] = {
    STRING_KEYS: ["k3", "k11"],
    PICKLED_KEYS: [{"f0": 4, "f1": "z"}],
    TUPLE_KEYS: [{"f0": 3, "f1": "k3"}],
}
#: What ``with_state`` replaces, as SQL.
REPLACED = {
    "v_long": "-v_long",
    "v_string": "concat(v_string, '!')",
    "list": "array_append(list, 7777L)",
    "map": "map_concat(map, map('new', -1L))",
    "v_row": "named_struct('id', v_row.id, 'name', 'changed', 'score', v_row.score, 'at', v_row.at, 'dec', v_row.dec)",
    "v_list": "array_append(v_list, CAST(NULL AS STRING))",
}


def replace_states(path: str, target: str) -> dict[str, dict[str, Any]]:
    """Replace states and remove keys with the fluent API; return by key what PyFlink is to find, {} for nothing."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    savepoint = Savepoint.load(spark, path)
    wanted = {}
    for uid in NEW_KEYS:
        operator = OperatorIdentifier.for_uid_hash(uid)
        frame = spark.read.format("savepoint").options(uidHash=uid, pyTypes=BYTES).load(path)
        for name, made in REPLACED.items():
            rows = frame.selectExpr("key", f"{made} AS {name}")
            savepoint = savepoint.with_state(operator, name, rows, pyTypes=BYTES)
        savepoint = savepoint.remove_keys(operator, [key_values(key) for key in REMOVED[uid]])
        wanted.update({shown_key(row["key"]): changed(row) for row in read(path, uid, pyTypes=BYTES).to_pylist()})
        wanted.update({shown_key(key): {} for key in (*REMOVED[uid], NEW_KEYS[uid])})
    savepoint.write(target)
    spark.stop()
    return wanted


def key_values(key: Any) -> Any:
    """Return a key as ``remove_keys`` takes it: a tuple as a list."""
    return list(key.values()) if isinstance(key, dict) else key


def shown_key(key: Any) -> str:
    """A key as PyFlink's own JSON has it."""
    return json.dumps(key_values(key))


def compare(lines: list[dict[str, Any]], wanted: dict[str, dict[str, Any]]) -> int:
    """Compare what PyFlink found with what was written; return the number of keys."""
    found = {json.dumps(line["key"]): line for line in lines if "timer" not in line}
    for key, line in found.items():
        row = wanted[key]
        assert line.get("nothing", False) == (not row), (key, line)
        if not row:
            continue
        assert {name: line[name] for name in ("v_long", "v_string", "list", "red", "v_list", "v_ttl")} == {
            name: row[name] for name in ("v_long", "v_string", "list", "red", "v_list", "v_ttl")
        }
        assert line["map"] == dict(row["map"])
        assert line["v_tuple"] == list(row["v_tuple"].values())
        assert line["v_row"] == f"Row(id={row['v_row']['id']}, name='changed', dec={row['v_row']['dec']})"
        assert line["v_pickled"] == row["v_tuple"]["f0"]
    assert len(found) == len(wanted), f"{len(found)} of {len(wanted)} keys"
    return len(found)


def timers_of(lines: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """Return the keys and times of the timers that fired."""
    return {(json.dumps(line["key"]), line["timer"]) for line in lines if "timer" in line}


def remaining_timers(path: str) -> set[tuple[str, int]]:
    """Return the timers of event time without those of removed keys, which all fire at the end of the input."""
    return {
        (shown_key(timer["key"]), timer["timestamp"])
        for uid in NEW_KEYS
        for timer in read(path, uid, table="timers").to_pylist()
        if timer["domain"] == "event" and timer["key"] not in REMOVED[uid]
    }


def main(folder: Path) -> None:
    """Install PyFlink, write the changes, and let it restore them."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "setuptools<70", RELEASE], check=True)
    target = folder / "savepoint"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(find_snapshots(str(unpacked() / "real/pyf-120/sp"))[0].path, target)
    for path in (target, *target.iterdir()):
        path.chmod(0o755)
    edited = folder / "edited"
    shutil.rmtree(edited, ignore_errors=True)
    wanted, timers = replace_states(str(target), str(edited)), remaining_timers(str(target))
    lines = restored(python, edited, folder / "edited.jsonl")
    assert timers_of(lines) == timers, timers_of(lines) ^ timers
    kept = sum(map(bool, wanted.values()))
    others = compare(lines, wanted) - kept
    print(
        f"with_state, remove_keys: PyFlink restored {kept} keys as they were written, and their {len(timers)} timers;"
    )
    print(f"it has nothing of {others} keys that were removed or never there")
    wanted = write_changes(str(target))
    lines = restored(python, target, folder / "found.jsonl")
    assert timers_of(lines) == {(shown_key(key), FIRES) for key in NEW_KEYS.values()}, timers_of(lines)
    print(f"PyFlink restored {compare(lines, wanted)} keys of {len(NEW_KEYS)} operators as they were written")


def restored(python: Path, savepoint: Path, out: Path) -> list[dict[str, Any]]:
    """Return what PyFlink finds in a savepoint."""
    out.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["JAVA_TOOL_OPTIONS"] = OPENED
    command = [str(python), str(JOB), str(savepoint), str(out)]
    subprocess.run(command, check=True, timeout=500, env=environment)
    return [json.loads(line) for line in out.read_text().splitlines()]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.gettempdir()) / "pyspark-savepoint-pyflink")
