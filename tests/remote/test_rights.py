"""Rights in a store: commands that only read, and dry runs of those that write, send nothing but GET, HEAD and LIST."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.commands import COMMANDS
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.connector.command_line.test_evolving import words as evolve_words
from tests.remote.conftest import SHOP
from tests.remote.faulty_writes import NEW, run
from tests.remote.measured_store import MeasuredStore, measured_store
from tests.statebackends.connectors.test_source_edits import opened

WRITES = {"PUT", "COPY", "BEGIN", "PART", "COMPLETE", "ABORT", "DELETE", "DELETES"}
SP, FOLDER, DRY = "s3://bucket/job/shop", "s3://bucket/job", "--dry-run"
#: What is run of each command that takes a store; ``{}`` is a folder of files.
RUN: dict[str, tuple[str, ...]] = {
    "ls": ("ls", SP),
    "retained": ("retained", FOLDER),
    "show": ("show", SP, "accounts", "--limit", "3"),
    "sizes": ("sizes", SP),
    "heaviest": ("heaviest", SP),
    "offsets": ("offsets", SP),
    "diff": ("diff", SP, SP),
    "changes": ("changes", FOLDER, "accounts", "total"),
    "report": ("report", SP, "--file", "{}/report.html"),
    "schema": ("schema", SP, "--file", "{}/schema.json"),
    "verify": ("verify", SP),
    "doctor": ("doctor", SP),
    "metrics": ("metrics", SP),
    "verify-erasure": ("verify-erasure", SP, "{}/erased.json", "--old", SP, "--keys", "1042"),
    "check-restore": ("check-restore", SP, SP),
    "evolve": ("evolve", "s3://bucket/sql", NEW, "{plans}", DRY),
    "catch-up": ("catch-up", "s3://bucket/sql", "s3://bucket/sql", "{plans}"),
    "check-migration": ("check-migration", SP, "--flink", "2.3"),
    "set-offsets": ("set-offsets", "s3://bucket/kafka", NEW, "--by", "-1", "--clamp", DRY),
    "rename": ("rename", SP, NEW, "accounts=customers", DRY),
    "copy-operator": ("copy-operator", SP, NEW, "accounts", "other", DRY),
    "remove": ("remove", SP, NEW, "accounts", DRY),
    "remove-keys": ("remove-keys", SP, NEW, "accounts", "--keys", "1042", DRY),
    "erase": ("erase", SP, NEW, "--keys", "1042", DRY),
    "rename-class": ("rename-class", SP, NEW, "oracle.Shop$Profile=com.shop.Profile", DRY),
    "rekey": ("rekey", SP, NEW, "accounts", "--type", "key=STRING", DRY),
    "set-max-parallelism": ("set-max-parallelism", SP, NEW, "64", DRY),
    "salvage": ("salvage", "s3://bucket/damaged", NEW, DRY),
    "create": ("create", NEW, "new", "{}/rows.jsonl", "--key", "id", "--flink", "2.3", DRY),
    "put": ("put", SP, NEW, "new", "{}/rows.jsonl", "--key", "id", DRY),
    "merge": ("merge", SP, "s3://bucket/sql", NEW, DRY),
    "split": ("split", SP, "--to", NEW, "accounts", "--rest", "s3://bucket/rest", DRY),
    "migrate": ("migrate", SP, NEW, "--flink", "2.3", DRY),
    "vacuum": ("vacuum", SP, DRY),
    "cp": ("cp", SP, NEW, DRY),
    "pin": ("pin", SP, NEW, DRY),
    "relocate": ("relocate", "s3://bucket/referred", SP, SP, NEW, DRY),
    "export": ("export", SP, "accounts", "total", "--format", "json", "--file", "{}/rows"),
    "warm-up": ("warm-up", SP),
}


@pytest.fixture
def measured(corpus: Path) -> Iterator[MeasuredStore]:
    """A store whose keys may only read: a savepoint, one that refers to it, a damaged one, and those of other jobs."""
    store_of.cache_clear()
    with measured_store() as store:
        store.upload(SHOP, "job/shop")
        store.upload(Path(evolve_words("agg-reorder")[1]), "sql")
        store.upload(Path(opened(corpus, "2.3.0-kafka-v5.0.0").savepoint.path), "kafka")
        store.upload(SHOP, "damaged")
        file = next(name for name in store.objects if name.startswith("damaged/") and "_metadata" not in name)
        store.objects[file] = store.objects[file][:-100]
        source = pyspark_savepoint.open(SP, storage_options={"endpoint": store.endpoint})
        source.write("s3://bucket/referred", files="reference")
        store.denied = WRITES
        yield store


def test_every_command_of_a_store_is_here() -> None:
    stored = "--storage-option"
    names = {command.name for command in COMMANDS if any(stored in one.names for one in command.all_arguments)}
    assert RUN.keys() == names


@pytest.mark.parametrize("name", RUN)
def test_what_only_reads_needs_no_right_to_write(
    measured: MeasuredStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "total": 2}\n')
    if name == "verify-erasure":
        erase = ("erase", SP, str(tmp_path / "erased"), "--keys", "1042", "--report", f"{tmp_path}/erased.json")
        assert run(measured, *erase) in (0, 1)
    plans = evolve_words("agg-reorder")[2:]
    given = [each for word in RUN[name] for each in (plans if word == "{plans}" else [word.format(tmp_path)])]
    done = run(measured, *given)
    said = capsys.readouterr()
    assert done in (0, 1, 3), said.err
    assert {one.kind for one in measured.requests} <= {"GET", "HEAD", "LIST"}
    assert {one.status for one in measured.requests} <= {200, 206, 304, 404, 416}
    assert measured.requests or name == "create"
