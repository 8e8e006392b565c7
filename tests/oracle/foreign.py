"""Real Flink writes state of serializers whose snapshots have no known ends, and restores what was edited beside it.

    python -m tests.oracle.foreign 1.20.5 --keep tests/oracle/savepoints/foreign
    python -m tests.oracle.foreign 2.3.0

The jobs are `oracle.Foreign`, and `oracle.ForeignKeys` whose keys are of such a serializer. States of these serializers
are carried over byte for byte, while others are edited.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyspark_savepoint
from pyspark_savepoint.command_line.warming import unpack
from tests.oracle.flink import BACKENDS, PATIENCE, run

#: The input of the job, and its keys: five numbers each.
NUMBERS, KEYS = 200, 40
UIDS = "keyed,listed,numbers"
FORMS = (("hashmap", "canonical"), ("hashmap", "native"), ("rocksdb", "canonical"), ("rocksdb", "native"))
#: Those of which every value has a length.
WITH_LENGTHS = ("hashmap-canonical", "rocksdb-canonical", "rocksdb-native")
SAVEPOINTS = Path(__file__).parent / "savepoints" / "foreign"
#: The uids of the job of keys, and the snapshots that are taken of it.
KEY_UIDS = "keyed,windowed,numbers"
OF_KEYS = (*FORMS[:2], FORMS[3], ("changelog", "checkpoint"))

#: The folders that a run leaves with snapshots.
PARTS = ("savepoint", "checkpoints", "dstl")


def unpacked(folder: Path, archive: str = "1.20.5") -> Path:
    """Unpack the savepoints that are kept into a folder, and return it."""
    unpack(SAVEPOINTS / f"{archive}.tar.xz", folder)
    return folder


def take(
    version: str, out: Path, backend: str, form: str, snapshot: Path | None = None, job: str = "Foreign"
) -> dict[str, Any]:
    """Let Flink run the job, from a savepoint where one is given, and write one: what it found."""
    out.mkdir(parents=True)
    arguments = [f"--out={out}", f"--staging={out / 'tmp'}", "--parallelism=2", f"--purchases={NUMBERS}"]
    arguments += [f"--format={form}", *([f"--snapshot={snapshot.as_uri()}"] if snapshot else [])]
    arguments += [f"--conf={name}={value}" for name, value in {**BACKENDS[backend], **PATIENCE}.items()]
    run(version, f"oracle.{job}", arguments)
    found: dict[str, Any] = json.loads((out / "found.json").read_text("utf-8"))
    return found


def edit(path: Path, target: Path) -> None:
    """Give every key a count of 0, so that the job reports it, and a total of 7; remove a key, and a list."""
    sp = pyspark_savepoint.open(path, uids=UIDS)
    keys = pa.array(range(KEYS), pa.int64())
    zeros = pa.table({"key": keys, "count": pa.array([0] * KEYS, pa.int64())})
    totals = pa.table({"key": keys, "total": pa.array([7] * KEYS, pa.int64())})
    edited = sp.with_state("keyed", "count", zeros).with_state("keyed", "total", totals)
    edited = edited.remove_keys("keyed", [3]).remove_state("listed", "longs")
    edited.remove_operator("numbers").write(target)  # it begins anew


def compare(found: dict[str, Any]) -> None:
    """Compare what the restored job found with what the first run put there."""
    rows = {row[0]: row[1:] for row in found["keyed"]["first"]}
    assert rows.pop(3) == ["null", "[]", "null", "null", "null"], rows
    for key, row in rows.items():
        last = NUMBERS - KEYS + key
        listed = ", ".join(f"large {number}" for number in range(key, NUMBERS, KEYS))
        assert row == [f"bytes {last}", f"[{listed}]", f"adapter {last}", f"length {last}", "7"], (key, row)
    assert len(rows) == KEYS - 1, sorted(rows)
    for state in ("bytes", "adapter"):
        assert sorted(found["listed"][state]) == sorted(f"{state} {number}" for number in range(NUMBERS)), state
    assert "longs" not in found["listed"], found["listed"]["longs"]


def edit_keys(path: Path, target: Path) -> None:
    """Remove the counts, so that the job reports what every key has."""
    sp = pyspark_savepoint.open(path, uids=KEY_UIDS, allow_outside=True)
    sp.remove_state("keyed", "count").remove_operator("numbers").write(target)


def compare_keys(found: dict[str, Any]) -> None:
    """Compare what every key has with what the first run put there."""
    rows = {row[0]: row[1:] for row in found["keyed"]["first"]}
    want = {}
    for key in range(KEYS):
        numbers = range(key, NUMBERS, KEYS)
        entries = ", ".join(sorted(f"k{number}={number}" for number in numbers))
        want[f"customer {key}"] = [f"name {numbers[-1]}", str(list(numbers)), f"[{entries}]"]
    assert rows == want, rows


def snapshot_of(folder: Path) -> Path:
    """Return the snapshot below a folder of the job."""
    (metadata,) = (path for path in folder.rglob("_metadata") if "edited" not in path.parts)
    return metadata.parent


def pack(archive: Path, folders: dict[str, Path]) -> None:
    """Pack folders under their names."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz") as packed:
        for name, folder in folders.items():
            packed.add(folder, name)


def main() -> int:
    """Have releases write and restore, on both backends."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.foreign", description=__doc__)
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--keep", type=Path, help="a folder for an archive of the savepoints that Flink writes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="savepoint-foreign-") as name:
        for version in args.versions:
            folder = Path(name) / version
            for backend, form in FORMS:
                take(version, folder / f"{backend}-{form}", backend, form)
                if f"{backend}-{form}" in WITH_LENGTHS:
                    path = folder / f"{backend}-{form}"
                    edit(path / "savepoint", path / "edited")
                    compare(take(version, folder / f"again-{backend}-{form}", backend, form, path / "edited"))
                    print(f"{version}, {backend}, {form}: edited, restored, and every value found")
            keys = Path(name) / f"keys-{version}"
            for backend, form in OF_KEYS:
                path = keys / f"{backend}-{form}"
                take(version, path, backend, form, job="ForeignKeys")
                if (backend, form) != ("hashmap", "native"):
                    edit_keys(snapshot_of(path), path / "edited")
                    again = keys / f"again-{backend}-{form}"
                    compare_keys(take(version, again, backend, "canonical", path / "edited", "ForeignKeys"))
                    print(f"{version}, keys, {backend}, {form}: edited, restored, and every value found")
            if args.keep:
                kept = {f"{backend}-{form}": folder / f"{backend}-{form}" / "savepoint" for backend, form in FORMS}
                pack(args.keep / f"{version}.tar.xz", kept)
                names = [f"{backend}-{form}/{part}" for backend, form in OF_KEYS for part in PARTS]
                kept = {one: keys / one for one in names if (keys / one).exists()}
                pack(args.keep / f"keys-{version}.tar.xz", kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
