"""Checkpoints of real Flink 1.10 to 1.15 are read, and every value compared: ``python -m tests.oracle.old_releases``.

Jars are those of the Python packages. Each release runs `oracle.OldJob` on RocksDB, with incremental checkpoints while
it runs, aligned and unaligned; 1.15 with a changelog too. Numbers that are kept, and those in flight, are all that the
source has sent. Then the job goes on from a savepoint in each way that the release knows, and takes checkpoints of its
own; and what was written is moved, and read where it is. Prints the rows of the table in `tests/RECORDS.md`.

A checkpoint of 1.15 that follows a native savepoint with CLAIM names files of the savepoint as if they were its own:
Flink cannot restore it either, which is tried.

    python -m tests.oracle.old_releases 1.11.4 1.15.4
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import SavepointWarning, StateFileNotFoundError
from tests.oracle import flink

RELEASES = ("1.10.3", "1.11.4", "1.12.5", "1.13.6", "1.14.6", "1.15.4")
KEYS, TIMERS_FROM, STEP_MILLIS, WINDOW_MILLIS = 50, 5_000_000_000_000, 10, 1_000
CHANGELOG = {
    "state.backend.changelog.enabled": "true",
    "state.backend.changelog.storage": "filesystem",
}
MATERIALIZED = {"state.backend.changelog.periodic-materialize.interval": "1500 ms"}
#: The parts of channels, which all have numbers.
TYPES = '{"%s": "LONG"}'


def cases(version: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """What a release writes: a name, whether checkpoints are aligned, and its configuration."""
    yield "incremental", "aligned", {}
    if version >= "1.11":
        yield "unaligned", "unaligned", {}
    if version >= "1.15":
        yield "changelog", "aligned", CHANGELOG
        yield "changelog, materialized", "aligned", {**CHANGELOG, **MATERIALIZED}
        yield "changelog, unaligned", "unaligned", {**CHANGELOG, **MATERIALIZED}


def write(version: str, out: Path, what: str, aligned: str, more: dict[str, str]) -> Path:
    """Have Flink write a snapshot; return its folder."""
    dstl = {"dstl.dfs.base-path": (out / "dstl").as_uri()} if "state.backend.changelog.enabled" in more else {}
    arguments = [str(out), what, aligned, *(f"{name}={value}" for name, value in {**dstl, **more}.items())]
    return Path(flink.run(version, "oracle.OldJob", arguments, timeout=200).split()[-1])


def compare(path: Path) -> Counter[str]:
    """Compare every value of a snapshot with what follows from the number of records that were sent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SavepointWarning)  # metadata of these releases has no uids
        savepoint = pyspark_savepoint.open(str(path), allowOutside=True)
        (sent,) = savepoint.table("operator_state", uid="numbers", state="next").to_arrow()["value"].to_pylist()
        flying = in_flight(savepoint)
        kept = savepoint.keyed_state("keeper").to_arrow().to_pylist()
        windows = savepoint.table("window_state", uid="windows").to_arrow().to_pylist()
        timers = savepoint.table("timers", uid="keeper").to_arrow().to_pylist()
        bad = [row for row in savepoint.table("verification").to_arrow().to_pylist() if row["status"] != "ok"]
    assert not bad, bad[:3]
    numbers = [number for row in kept for number in row["numbers"]]
    assert sorted(numbers + flying["to keeper"]) == list(range(sent)), "numbers are lost, or twice"
    for row in kept:
        check_key(row)
    in_windows: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for number in set(numbers) - set(flying["to windows"]):
        in_windows[f"k{number % KEYS}", number * STEP_MILLIS // WINDOW_MILLIS].append(number)
    found = {(row["key"], int(row["window"]["start"].timestamp())): row["window-contents"] for row in windows}
    assert found == {window: sorted(each) for window, each in in_windows.items()}
    fired = sorted((row["key"], row["timestamp"]) for row in timers)
    assert fired == sorted((row["key"], TIMERS_FROM + int(row["key"][1:])) for row in kept)
    values = len(numbers) + sum(4 + len(row["last-of-five"]) for row in kept) + len(timers)
    return Counter(values=values + sum(map(len, found.values())), flying=sum(map(len, flying.values())))


def check_key(row: dict[str, Any]) -> None:
    """Compare the states of a key with each other."""
    numbers = row["numbers"]
    last = numbers[-1]
    assert all(row["key"] == f"k{number % KEYS}" for number in numbers)
    assert numbers == list(range(int(row["key"][1:]), last + 1, KEYS))
    assert row["sum"] == sum(numbers)
    assert row["last"] == {"f0": last, "f1": f"n{last}", "f2": last / 4}
    assert row["living"] == last
    assert dict(row["last-of-five"]) == {f"r{number // KEYS % 5}": number for number in numbers}


def in_flight(savepoint: LocalSavepoint) -> dict[str, list[int]]:
    """The numbers that are under way, by the operator to which they go."""
    found: dict[str, list[int]] = {"to keeper": [], "to windows": []}
    names = {"numbers", "keeper", "windows"}
    listed = savepoint.table("states", uids=sorted(names)).to_arrow().to_pylist()
    for row in listed:
        if row["table"] != "in_flight":
            continue
        options = {"uid": row["operator_uid"], "state": row["state"], "recordTypes": TYPES % row["state"]}
        to = "to keeper" if (row["operator_uid"], row["state"]) in KEEPERS else "to windows"
        for each in savepoint.table("in_flight", **options).to_arrow().to_pylist():
            assert each["kind"] in ("record", "rest_of_element"), each
            found[to] += [each["value"]] if each["kind"] == "record" else []
    return found


KEEPERS = (("numbers", "output 0"), ("keeper", "input 0"))


def moves(version: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield snapshots whose files lie elsewhere than where they were written, or belong to two jobs."""
    written = write(version, folder / "first", "savepoint", "aligned", {})
    for mode in ("NO_CLAIM", "CLAIM") if version >= "1.15" else ("",):
        restored = {"restore": str(written), **({"mode": mode} if mode else {})}
        if mode == "CLAIM":
            restored["restore"] = str(shutil.copytree(written, folder / "claimed"))
        path = write(version, folder / f"next{mode}", "checkpoint", "aligned", restored)
        if mode != "CLAIM" or is_restored(version, folder / "claimed-next", path):
            yield f"checkpoint after a restore {mode}".strip(), path
    moved = folder / "moved" / "savepoint"
    moved.parent.mkdir()
    shutil.move(written, moved)
    yield "savepoint, moved", moved
    last = write(version, folder / "checkpoints", "checkpoint", "aligned", {})
    copy = folder / "moved" / "checkpoints"
    shutil.move(last.parent, copy)
    yield "checkpoint, moved with its job's folder", copy / last.name


def is_restored(version: str, out: Path, path: Path) -> bool:
    """Whether Flink restores a checkpoint; where it does not, neither is it read, for a file that is not there."""
    try:
        write(version, out, "savepoint", "aligned", {"restore": str(path)})
        return True
    except flink.FlinkError as error:
        refusal = str(error)
    assert "FileNotFound" in refusal, refusal
    with pytest.raises(StateFileNotFoundError):
        compare(path)
    print(f"| {version} | checkpoint after a restore CLAIM | Flink misses a file too | |", flush=True)
    return False


def main(versions: list[str]) -> None:
    """Run the releases; print a row of the table for each."""
    print("| release | snapshot | values | in flight |\n| --- | --- | --- | --- |", flush=True)
    for version in versions:
        with tempfile.TemporaryDirectory(prefix="old-releases-") as scratch:
            folder = Path(scratch)
            for number, (name, aligned, more) in enumerate(cases(version)):
                told(version, name, write(version, folder / str(number), "checkpoint", aligned, more))
            for name, path in moves(version, folder):
                told(version, name, path)


def told(version: str, name: str, path: Path) -> None:
    """Print what was compared."""
    found = compare(path)
    print(f"| {version} | {name} | {found['values']:,} | {found['flying']:,} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(RELEASES))
