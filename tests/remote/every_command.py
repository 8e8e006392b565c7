"""Every command that takes a store, on snapshots in a store: what tests of rights, requests and faults run."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pyarrow as pa

import pyspark_savepoint
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from tests.connector.command_line.test_evolving import words as evolve_words
from tests.data import unpacked
from tests.remote.conftest import SHOP
from tests.remote.measured_azure import MeasuredAzure
from tests.remote.measured_store import MeasuredStore
from tests.statebackends.connectors.test_source_edits import opened
from tests.statebackends.writing.written_operators import planned

#: Snapshots in the store; what commands that write begin to write; and a folder of this machine with rows and reports.
SP, FOLDER, SQL, NEW, FILES = "{store}/job/shop", "{store}/job", "{store}/sql", "{store}/out/new", "{files}"
BUCKET = "s3://bucket"
PLANS = tuple(word.replace("{", "{{") for word in evolve_words("agg-reorder")[2:])

READS: dict[str, tuple[str, ...]] = {
    "ls": ("ls", SP),
    "retained": ("retained", FOLDER),
    "show": ("show", SP, "accounts", "--limit", "3"),
    "sizes": ("sizes", SP),
    "heaviest": ("heaviest", SP),
    "offsets": ("offsets", "{store}/kafka"),
    "diff": ("diff", SP, SQL),
    "changes": ("changes", FOLDER, "accounts", "total", "--limit", "0"),
    "report": ("report", SP, "--file", f"{FILES}/report.html"),
    "schema": ("schema", SP, "--file", f"{FILES}/schema.json"),
    "verify": ("verify", SP),
    "doctor": ("doctor", SP),
    "metrics": ("metrics", SP),
    "verify-erasure": (
        *("verify-erasure", "{store}/erased", f"{FILES}/erased.json", "--old", SP),
        *("--salt-file", f"{FILES}/salt", "--keys", "1042"),
    ),
    "check-restore": ("check-restore", SP, SP),
    "catch-up": ("catch-up", SQL, SQL, *PLANS),
    "check-migration": ("check-migration", SP, "--flink", "2.3"),
    "export": ("export", SP, "accounts", "total", "--format", "json", "--file", f"{FILES}/rows", "--force"),
    "warm-up": ("warm-up", SP),
}
#: What is printed, and changes from run to run without a fault: times, and names of writes and files.
VARYING = re.compile(r"\d+(\.\d+)? (s|ms|seconds)\b|[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{12}(-\d+-[0-9a-f]{8})?\b")
#: Each takes ``--dry-run``.
WRITES: dict[str, tuple[str, ...]] = {
    "evolve": ("evolve", SQL, NEW, *PLANS),
    "set-offsets": ("set-offsets", "{store}/kafka", NEW, "--by", "-1", "--clamp"),
    "rename": ("rename", SP, NEW, "accounts=customers"),
    "copy-operator": ("copy-operator", SP, NEW, "accounts", "other"),
    "remove": ("remove", SP, NEW, "accounts"),
    "remove-keys": ("remove-keys", SP, NEW, "accounts", "--keys", "1042"),
    "erase": ("erase", SP, NEW, "--keys", "1042"),
    "rename-class": ("rename-class", SP, NEW, "oracle.Shop$Profile=com.shop.Profile"),
    "rekey": ("rekey", SP, NEW, "accounts", "--type", "key=STRING"),
    "set-max-parallelism": ("set-max-parallelism", SP, NEW, "64"),
    "salvage": ("salvage", "{store}/damaged", NEW),
    "create": ("create", NEW, "new", f"{FILES}/rows.jsonl", "--key", "id", "--flink", "2.3"),
    "put": ("put", SP, NEW, "new", f"{FILES}/rows.jsonl", "--key", "id"),
    "merge": ("merge", SP, SQL, NEW),
    "split": ("split", SP, "--to", NEW, "accounts", "--rest", "{store}/out/rest"),
    "migrate": ("migrate", SP, NEW, "--flink", "2.3"),
    "vacuum": ("vacuum", "{store}/left", "--older-than", "0s"),
    "cp": ("cp", SP, NEW),
    "pin": ("pin", SP, NEW),
    "relocate": ("relocate", "{store}/referred", SP, SP, NEW),
}
COMMANDS = READS | WRITES


def words_of(name: str, files: Path, bucket: str = BUCKET) -> list[str]:
    """Return the words of a command on what :func:`fill` has put into a bucket and a folder."""
    return [word.format(store=bucket, files=files) for word in COMMANDS[name]]


def usual(text: str, bucket: str, files: Path) -> str:
    """Return what a command has said without what differs from store to store, and from run to run."""
    return re.sub(" +", " ", VARYING.sub("", text.replace(bucket, "BUCKET").replace(str(files), "FILES")))


def fill(store: MeasuredStore | MeasuredAzure, files: Path, bucket: str = BUCKET, **options: object) -> None:
    """Put into a store what the commands read, and rows and the report of an erasure into a folder."""
    options |= {"endpoint": store.endpoint}
    store.upload(SHOP, "job/shop")
    store.upload(SHOP, "damaged")
    file = next(file for file in SHOP.iterdir() if file.name != "_metadata")
    store.put(f"damaged/{file.name}", file.read_bytes()[:-100])
    store.upload(Path(evolve_words("agg-reorder")[1]), "sql")
    store.upload(Path(opened(unpacked(), "2.3.0-kafka-v5.0.0").savepoint.path), "kafka")
    shop = pyspark_savepoint.open(f"{bucket}/job/shop", storage_options=options)
    shop.write(f"{bucket}/referred", files="reference")
    shop.write(f"{bucket}/left")
    schema = pa.schema({"key": pa.int64(), "n": pa.int64()})
    left = planned(StoragePath.of(f"{bucket}/left", StorageOptions.of(options)), schema, overwrite=True)
    with closing(left.staging.create_state(left.staging.unique("0"))) as unpublished:
        unpublished.write(b"of a writer that has died")
    files.joinpath("rows.jsonl").write_text('{"id": 1, "total": 2}\n')
    report = pyspark_savepoint.open(SHOP).erase([1042], to=files / "erased", salt="of tests")
    store.upload(files / "erased", "erased")
    files.joinpath("erased.json").write_text(report.to_json())
    files.joinpath("salt").write_text("of tests")
