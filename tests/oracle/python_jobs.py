"""Real PyFlink restores what was written for its operators: ``python -m tests.oracle.python_jobs [FOLDER]``.

``FOLDER`` (by default below the temporary one) gets a venv with ``apache-flink`` of 1.20, from the package index. The
states of three operators of a real job, with keys that are texts, pickled tuples and typed tuples, are read, changed,
written with new keys and other timers, and read by PyFlink itself, which prints what it has of every key. The command
ends with an error where that is not what was written.
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

from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from tests.conftest import CORPUS
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


def shown_key(key: Any) -> str:
    """A key as PyFlink's own JSON has it."""
    return json.dumps(list(key.values()) if isinstance(key, dict) else key)


def compare(lines: list[dict[str, Any]], wanted: dict[str, dict[str, Any]]) -> int:
    """Compare what PyFlink found with what was written; return the number of keys."""
    fired = {json.dumps(line["key"]) for line in lines if line.get("timer") == FIRES}
    assert fired == {shown_key(key) for key in NEW_KEYS.values()}, fired
    assert all(line["timer"] == FIRES for line in lines if "timer" in line)
    found = {json.dumps(line["key"]): line for line in lines if "timer" not in line}
    for key, line in found.items():
        row = wanted[key]
        assert {name: line[name] for name in ("v_long", "v_string", "list", "red", "v_list", "v_ttl")} == {
            name: row[name] for name in ("v_long", "v_string", "list", "red", "v_list", "v_ttl")
        }
        assert line["map"] == dict(row["map"])
        assert line["v_tuple"] == list(row["v_tuple"].values())
        assert line["v_row"] == f"Row(id={row['v_row']['id']}, name='changed', dec={row['v_row']['dec']})"
        assert line["v_pickled"] == row["v_tuple"]["f0"]
    assert len(found) == len(wanted), f"{len(found)} of {len(wanted)} keys"
    return len(found)


def main(folder: Path) -> None:
    """Install PyFlink, write the changes, and let it restore them."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "setuptools<70", RELEASE], check=True)
    target = folder / "savepoint"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(find_snapshots(str(CORPUS / "real/pyf-120/sp"))[0].path, target)
    for path in (target, *target.iterdir()):
        path.chmod(0o755)
    wanted = write_changes(str(target))
    out = folder / "found.jsonl"
    out.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["JAVA_TOOL_OPTIONS"] = OPENED
    command = [str(python), str(JOB), str(target), str(out)]
    subprocess.run(command, check=True, timeout=500, env=environment)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    print(f"PyFlink restored {compare(lines, wanted)} keys of {len(NEW_KEYS)} operators as they were written")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.gettempdir()) / "pyspark-savepoint-pyflink")
