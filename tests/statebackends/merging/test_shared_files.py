"""Incremental checkpoints that share files: changes found in their other files are those of all files."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyspark_savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.engines.arrow.local_table import SnapshotTable
from pyspark_savepoint.formats.rocksdb.entries import DatabaseEntries, DeletedRanges, changed_keys, resolve
from pyspark_savepoint.formats.rocksdb.keyed_stream import SharedFiles
from pyspark_savepoint.formats.rocksdb.sst import SstFile
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.statebackends.merging import change_counts, keyed_input
from pyspark_savepoint.statebackends.merging.row_bytes import row_bytes
from tests.benchmarks.rocksdb_data import ContinuedJob, IncrementalJob, native_of

INCREMENTAL = ("1.20.5-rocksdb-incr", "1.20.5-rocksdb-incr-rescaled", "2.3.0-forst-incr", "2.3.0-rocksdb-incr")
TABLES = {
    "accounts": {"uid": "accounts", "table": "keyed_state"},
    "last access": {"uid": "accounts", "table": "keyed_state", "includeTtl": "true"},
    "one state": {"uid": "accounts", "table": "keyed_state", "state": "tags"},
    "names": {"uid": "names", "table": "keyed_state"},
    "windows": {"uid": "windows", "table": "window_state"},
    "timers": {"uid": "accounts", "table": "timers"},
    "timers of windows": {"uid": "windows", "table": "timers"},
    "elements of a list": {"uid": "accounts", "table": "keyed_state", "state": "tags", "flatten": "true"},
    "elements of a map": {"uid": "accounts", "table": "keyed_state", "state": "per", "flatten": "true"},
}


def changes(path: Path, **options: Any) -> pa.Table:
    texts = {"path": str(path), "allowOutside": "true", "readChangeFeed": "true", **options}
    return SnapshotTable.of(SavepointReadOptions.parse({name: str(value) for name, value in texts.items()})).to_arrow()


def counted(rows: pa.Table) -> Counter[bytes]:
    return Counter(value for batch in rows.to_batches() for value in row_bytes(batch.columns).to_pylist())


class Watched:
    """How often files were compared, by how many common ones suffice for it: -1 for never."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, least: int) -> None:
        self.windows = 0
        monkeypatch.setattr(keyed_input, "LEAST_COMMON", least)
        windows = SharedFiles.pairs

        def counting(shared: SharedFiles, *given: Any) -> Any:
            self.windows += 1
            return windows(shared, *given)

        monkeypatch.setattr(SharedFiles, "pairs", counting)


@pytest.mark.slow("two more histories of jobs", sets=("1.20.5",))
@pytest.mark.thorough(
    "changes of any history, and of one real one",
    sets=(
        "2.3.0-forst",
        "2.3.0-rocksdb-incr-l",
        "2.3.0-rocksdb-incr-o",
        "2.3.0-rocksdb-incr-t",
        "2.3.0-rocksdb-incr-w",
    ),
)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", INCREMENTAL)
def test_changes_of_real_checkpoints(corpus: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = corpus / "history" / name / "checkpoints"
    given = {**TABLES[kind], "startingVersion": 2, "parallelism": 2}
    watched = Watched(monkeypatch, -1)
    merged = changes(path, **given)
    assert not watched.windows
    watched = Watched(monkeypatch, 1 << 40)
    found = changes(path, **given)
    assert watched.windows
    assert counted(found) == counted(merged)
    assert found.schema == merged.schema


def counts(before: Path, after: Path, patch: pytest.MonkeyPatch, least: float) -> list[dict[str, Any]]:
    """The differences in numbers, by how many common files suffice to read only those of one side whole."""
    patch.setattr(change_counts, "LEAST_COMMON_COUNTED", least)
    sides = [pyspark_savepoint.open(path, allow_outside=True) for path in (before, after)]
    return sides[0].diff(sides[1]).to_arrow().to_pylist()


@pytest.mark.slow("two more histories of jobs", sets=("1.20.5",))
@pytest.mark.thorough("changes of any history, and of one real one", sets=("2.3.0-rocksdb",))
@pytest.mark.parametrize("name", INCREMENTAL)
def test_numbers_of_real_checkpoints(corpus: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = corpus / "history" / name / "checkpoints"
    found = sorted(path.rglob("chk-*"), key=lambda each: int(each.name.removeprefix("chk-")))
    windows = 0
    for before, after in pairwise(found):
        merged = counts(before, after, monkeypatch, -1)
        watched = Watched(monkeypatch, -1)
        assert counts(before, after, monkeypatch, 1 << 40) == merged
        windows += watched.windows
    assert windows


@pytest.mark.parametrize("held", [{3}, {2, 3}, {2, 3, 4}])
def test_held_checkpoints_have_the_files_of_the_job(corpus: Path, tmp_path: Path, held: set[int]) -> None:
    job = tmp_path / "job"
    shutil.copytree(corpus / "history" / "2.3.0-rocksdb-incr" / "checkpoints", job)
    options = {"uid": "accounts", "startingVersion": 3, "endingVersion": 4}
    expected = changes(job, **options)
    described = described_of(job, options)
    assert "table files that only one of the two snapshots has" in described
    for number in held:
        checkpoint = next(job.rglob(f"chk-{number}"))
        pyspark_savepoint.open(checkpoint).pin(tmp_path / "held" / checkpoint.name)
        shutil.rmtree(checkpoint)
    # One that is held again has them, too.
    pyspark_savepoint.open(tmp_path / "held" / "chk-3").pin(tmp_path / "again")
    shutil.rmtree(tmp_path / "held" / "chk-3")
    assert described_of(tmp_path, options) == described
    found = changes(tmp_path, **options)
    assert counted(found.drop(["_commit_timestamp"])) == counted(expected.drop(["_commit_timestamp"]))


def described_of(path: Path, options: dict[str, Any]) -> str:
    texts = {"path": str(path), "allowOutside": "true", "readChangeFeed": "true", **options}
    table = SnapshotTable.of(SavepointReadOptions.parse({name: str(value) for name, value in texts.items()}))
    return table.description


CONTINUED = (
    {"uid": "window-session", "table": "window_state"},
    {"uid": "window-session", "table": "timers"},
    {"uid": "window-tumbling-reduce", "table": "window_state"},
)


@pytest.mark.thorough("changes of any history, and of one real one")
@pytest.mark.parametrize("name", ["2.2.1-rocksdb-native", "2.2.1-rocksdb-incr-checkpoint"])
def test_windows_that_merge_and_numbers_of_all_states(
    corpus: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ContinuedJob(tmp_path / "job", Path(find_snapshots(str(corpus / "lab" / name))[0].path))
    random = Random(34)
    for version in range(1, 4):
        job.checkpoint(version)
        job.change(random, 0.3)
    job.close()
    for options in CONTINUED:
        merged = both_ways(job.path, options, monkeypatch)
        assert len(merged) or options["table"] == "timers"
    for version in (1, 2):
        pair = job.path / f"chk-{version}", job.path / f"chk-{version + 1}"
        found = counts(*pair, monkeypatch, 1 << 40)
        assert found == counts(*pair, monkeypatch, -1)
        assert sum(row["changed"] or 0 for row in found) > 20


OF_PYFLINK = (
    {"uidHash": "f6108bddb22b242a688a7098e3b65f59", "table": "keyed_state"},
    {"uidHash": "f6108bddb22b242a688a7098e3b65f59", "table": "keyed_state", "state": "list_pickled", "flatten": "true"},
    {"uidHash": "f6108bddb22b242a688a7098e3b65f59", "table": "keyed_state", "state": "map_row", "flatten": "true"},
    {"uidHash": "e2762e0dfbb2ed8ef99099782c576122", "table": "timers"},
    {"uidHash": "31f7a23b711d51ac0e19e779ae0e188c", "table": "window_state"},
)


@pytest.mark.slow  # all checkpoints of a job
def test_states_of_pyflink(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    savepoint = Path(find_snapshots(str(corpus / "real" / "pyf-120"))[0].path)
    job = ContinuedJob(tmp_path / "job", native_of(savepoint, tmp_path / "native"))
    random = Random(5)
    for version in range(1, 4):
        job.checkpoint(version)
        job.change(random, 0.3)
    job.close()
    for options in OF_PYFLINK:
        assert len(both_ways(job.path, options, monkeypatch))


def both_ways(path: Path, options: dict[str, str], patch: pytest.MonkeyPatch) -> pa.Table:
    """The changes by merging both sides, which those by files that differ are."""
    watched = Watched(patch, 1 << 40)
    found = changes(path, **options, startingVersion=2)
    assert watched.windows
    patch.setattr(keyed_input, "LEAST_COMMON", -1)
    merged = changes(path, **options, startingVersion=2)
    assert counted(found) == counted(merged)
    return merged


STEP = st.one_of(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete"]), st.integers(0, 59), st.integers(1, 12), st.integers(0, 2)
    ),
    st.tuples(
        st.sampled_from(["flush", "compact", "part", "checkpoint", "checkpoint", "range"]), *[st.integers(0, 59)] * 3
    ),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(STEP, min_size=5, max_size=40))
def test_changes_of_any_history(steps: list[tuple[str, int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        job = IncrementalJob(Path(folder) / "job", "long", 60, block_size=64)
        job.put(np.arange(0, 60, 2), np.arange(30))
        job.checkpoint(1)
        number = 1
        for what, row, count, value in steps:
            rows = np.arange(row, min(row + count, 60))
            if what == "put":  # few values, so that a key often has an earlier one again
                job.put(rows, np.full(len(rows), value))
            elif what == "delete":
                job.delete(rows, ("total", "count")[value % 2])
            elif what == "flush":
                job.each(lambda family: family.flush())
            elif what == "compact":
                job.each(lambda family: family.compact_range(None, None))
            elif what in ("part", "range"):
                low, high = sorted((bytes([2 * row]), bytes([2 * count])))
                if what == "range":
                    job.each(lambda family, low=low, high=high: family.delete_range(low, high))
                    continue
                job.each(lambda family, low=low, high=high: family.compact_range(low, high))
            else:
                number += 1
                job.checkpoint(number)
        job.checkpoint(number + 1)
        job.close()
        options = {"uid": "bench", "startingVersion": 2}
        patch.setattr(keyed_input, "LEAST_COMMON", -1)
        merged = changes(job.path, **options)
        patch.setattr(keyed_input, "LEAST_COMMON", 1 << 40)
        assert counted(changes(job.path, **options)) == counted(merged)
        for version in sorted({1, number}):
            pair = job.path / f"chk-{version}", job.path / f"chk-{version + 1}"
            assert counts(*pair, patch, 1 << 40) == counts(*pair, patch, -1)


def test_only_blocks_that_can_have_older_values_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = IncrementalJob(tmp_path / "job", "long", 20_000, block_size=256)
    job.put(np.arange(20_000), np.arange(20_000))
    job.each(lambda family: family.compact_range(None, None))
    job.checkpoint(1)
    first = {str(file) for file in (job.path / "shared").iterdir()}
    rows = np.lexsort(job.keys.T[::-1])[5000:5200]
    for version in (2, 3):
        job.put(rows, np.arange(200) + version * 100_000)
        job.checkpoint(version)
    job.close()
    read_blocks, found = SstFile.read, Counter[str]()

    def counting(file: SstFile, source: Any, chosen: Any, *rest: Any) -> Any:
        found["first" if file.path in first else "later"] += int(file.index.size[chosen].sum())
        return read_blocks(file, source, chosen, *rest)

    monkeypatch.setattr(SstFile, "read", counting)
    options = {"uid": "bench", "parallelism": 1}
    assert len(changes(job.path, **options, startingVersion=2, endingVersion=2)) == 400
    size = sum(Path(file).stat().st_size for file in first)
    assert 0 < found["first"] < size / 20
    found.clear()
    # The values before are in the files of version 2, and hide those of the first.
    assert len(changes(job.path, **options, startingVersion=3)) == 400
    assert found["first"] == 0 < found["later"]


@pytest.mark.thorough("changes of any history, and of one real one")
def test_no_more_is_read_than_by_merging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key changed, half of them, few, some with a skew, and some after all files were compacted."""
    count, random = 20_000, np.random.default_rng(34)
    job = IncrementalJob(tmp_path / "job", "long", count, block_size=512)
    job.put(random.permutation(count), np.arange(count))
    job.each(lambda family: family.compact_range(None, None))
    job.checkpoint(1)
    skewed = np.unique(np.minimum(random.zipf(1.3, 2_000) - 1, count - 1))
    changed = (count, count // 2, 20, skewed, 200)
    for version, rows in enumerate(changed, 2):
        if version == 6:
            job.each(lambda family: family.compact_range(None, None))
        chosen = random.choice(count, rows, replace=False) if isinstance(rows, int) else rows
        job.put(chosen, np.arange(len(chosen)) + version * count)
        job.checkpoint(version)
    job.close()
    read_blocks, usual, size = SstFile.read, keyed_input.LEAST_COMMON, 0

    def counting(file: SstFile, source: Any, chosen: Any, *rest: Any) -> Any:
        nonlocal size
        size += int(file.index.size[chosen].sum())
        return read_blocks(file, source, chosen, *rest)

    monkeypatch.setattr(SstFile, "read", counting)
    shares = []
    for version in range(2, 7):
        sizes, rows_found = [], []
        for least in (usual, -1):
            monkeypatch.setattr(keyed_input, "LEAST_COMMON", least)
            size = 0
            rows_found.append(counted(changes(job.path, uid="bench", startingVersion=version, endingVersion=version)))
            sizes.append(size)
        assert rows_found[0] == rows_found[1]
        shares.append(sizes[0] / sizes[1])
    assert max(shares) <= 1
    assert shares[2] < 0.1


def test_merging_reads_each_file_about_once_for_each_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many key groups together: the end of a file once, and few of its blocks again."""
    count = 400_000
    job = IncrementalJob(tmp_path / "job", "long", count)
    job.put(np.random.default_rng(6).permutation(count), np.arange(count))
    job.each(lambda family: family.compact_range(None, None))
    job.checkpoint(1)
    job.put(np.arange(100), np.arange(100))
    job.checkpoint(2)
    job.close()
    monkeypatch.setattr(keyed_input, "LEAST_COMMON", -1)
    opened, blocks, known = Counter[str](), Counter[str](), dict[str, int]()
    opening, reading = SstFile.__init__, SstFile.read

    def counting_ends(file: SstFile, *rest: Any, **options: Any) -> None:
        opening(file, *rest, **options)
        opened[file.path] += 1
        known[file.path] = len(file.index.size)

    def counting_blocks(file: SstFile, source: Any, chosen: Any, *rest: Any) -> Any:
        blocks[file.path] += len(file.index.size[chosen])
        return reading(file, source, chosen, *rest)

    monkeypatch.setattr(SstFile, "__init__", counting_ends)
    monkeypatch.setattr(SstFile, "read", counting_blocks)
    assert len(changes(job.path, uid="bench", startingVersion=2)) == 200
    assert max(opened.values()) <= 4
    assert sum(blocks.values()) < 1.5 * 2 * sum(known.values())


# -- entries of one key, as RocksDB moves them ------------------------------------------------------------------------

PUT, MERGE, DELETE = 1, 2, 0
#: An entry of a key: sequence number, type, value.
Version = tuple[int, int, bytes]


def value_of(versions: list[Version]) -> bytes | None:
    """What RocksDB returns for a key."""
    parts: list[bytes] = []
    for _, kind, value in sorted(versions, reverse=True):
        if kind == DELETE:
            break
        parts.append(value)
        if kind == PUT:
            break
    return b",".join(reversed(parts)) if parts else None


def compacted(versions: list[Version], bottom: bool) -> list[Version]:
    """What a compaction makes of a key's entries: one, or operands that wait for an older value."""
    versions = sorted(versions, reverse=True)
    parts: list[Version] = []
    for version in versions:
        parts.append(version)
        if version[1] != MERGE:
            break
    newest = versions[0][0]
    ended = parts[-1][1] != MERGE or bottom
    value = value_of(parts)
    if not ended:
        return [(newest, MERGE, value or b"")]
    if value is None:
        return [] if bottom else [(newest, DELETE, b"")]
    return [(0 if bottom else newest, PUT, value)]


@pytest.mark.thorough("changes of any history, and of one real one")
@settings(max_examples=600, deadline=None)
@given(st.data())
def test_a_key_that_is_left_out_has_the_same_value(data: st.DataObject) -> None:
    # Levels of one key, the newest first: each a file with an identity of its own.
    levels: list[tuple[int, list[Version]]] = []
    sequence = files = 0
    snapshot: list[tuple[int, list[Version]]] | None = None
    for step in data.draw(st.lists(st.sampled_from("wwwwcccs"), min_size=4, max_size=16)):
        if step == "w":
            sequence, files = sequence + 1, files + 1
            kind = data.draw(st.sampled_from([PUT, PUT, MERGE, DELETE]))
            value = b"" if kind == DELETE else data.draw(st.sampled_from([b"a", b"b", b"a,a"]))
            levels.insert(0, (files, [(sequence, kind, value)]))
        elif step == "c" and levels:
            low = data.draw(st.integers(0, len(levels) - 1))
            high = data.draw(st.integers(low, len(levels) - 1))
            bottom = high == len(levels) - 1 and data.draw(st.booleans())
            merged = compacted([each for _, versions in levels[low : high + 1] for each in versions], bottom)
            files += 1
            levels[low : high + 1] = [(files, merged)] if merged else []
        elif step == "s":
            snapshot = list(levels)
    if snapshot is None:
        return
    common = {number for number, _ in snapshot} & {number for number, _ in levels}
    gone = [version for number, versions in snapshot if number not in common for version in versions]
    added = [version for number, versions in levels if number not in common for version in versions]
    before, after = (value_of([each for _, versions in side for each in versions]) for side in (snapshot, levels))
    found = changed_keys(run_of(gone), run_of(added), "")
    if found is None or not len(found):
        assert before == after


def run_of(versions: list[Version]) -> list[DatabaseEntries]:
    """The entries of key ``k`` as a sorted run."""
    if not versions:
        return []
    versions = sorted(versions, reverse=True)
    data = np.frombuffer(b"".join(b"k" + value for _, _, value in versions) + bytes(16), np.uint8).copy()
    sizes = np.array([1 + len(value) for _, _, value in versions])
    end = np.cumsum(sizes)
    start = end - sizes
    tag = np.array([sequence << 8 | kind for sequence, kind, _ in versions])
    return [DatabaseEntries(data, start, start + 1, start + 1, end, tag)]


def test_entries_are_resolved_as_the_model_does() -> None:
    versions = [(4, MERGE, b"b"), (3, MERGE, b"a"), (2, PUT, b"c"), (1, PUT, b"d")]
    found = resolve(run_of(versions), DeletedRanges([], []), "")
    assert found.buffer[found.value_start[0] : found.value_end[0]].tobytes() == value_of(versions) == b"c,a,b"


def test_the_plan_says_what_it_reads(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = corpus / "history" / "2.3.0-rocksdb-incr" / "checkpoints"
    given = {"path": str(path), "allowOutside": "true", "readChangeFeed": "true", "uid": "names"}
    table = SnapshotTable.of(SavepointReadOptions.parse({**given, "startingVersion": "3"}))
    assert "MB that both have, only the blocks with the keys found there" in table.description
    assert table.select("key").description == table.description
    assert main(["changes", str(path), "names", "--start", "3", "--allow-outside"]) == 1
    assert table.description in capsys.readouterr().err
