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

BUCKET = "s3://bucket"
#: What is printed, and changes from run to run without a fault: times, and names of writes and files.
VARYING = re.compile(r"\d+(\.\d+)? (s|ms|seconds)\b|[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{12}(-\d+-[0-9a-f]{8})?\b")
#: Words of each command, the kinds of its requests in S3, and the most of them that wait for one another. Words name
#: the bucket, a savepoint in it, a new one, a folder with rows and reports, and plans.
DECLARED = (
    ("ls {sp}", "GET 3, LIST 1", 2),
    ("retained {store}/job", "GET 2, LIST 3", 4),
    ("show {sp} accounts --limit 3", "GET 3", 2),
    ("sizes {sp}", "GET 3", 2),
    ("heaviest {sp}", "GET 3", 2),
    ("offsets {store}/kafka", "GET 1", 1),
    ("diff {sp} {store}/sql", "GET 4", 2),
    ("changes {store}/job accounts total --limit 0", "GET 4, LIST 1", 3),
    ("report {sp} --file {files}/report.html", "GET 3, LIST 2", 3),
    ("schema {sp} --file {files}/schema.json", "GET 3", 2),
    ("verify {sp}", "GET 3", 2),
    ("doctor {sp}", "GET 3", 2),
    ("metrics {sp}", "GET 3, LIST 1", 2),
    (
        "verify-erasure {store}/erased {files}/erased.json --old {sp} --salt-file {files}/salt --keys 1042",
        "GET 8, LIST 2",
        8,
    ),
    ("check-restore {sp} {sp}", "GET 3", 2),
    ("catch-up {store}/sql {store}/sql {plans}", "GET 1", 1),
    ("check-migration {sp} --flink 2.3", "GET 3", 2),
    ("export {sp} accounts total --format json --file {files}/rows --force", "GET 3", 2),
    ("warm-up {sp}", "GET 3", 2),
    ("evolve {store}/sql {new} {plans}", "DELETES 1, GET 5, HEAD 2, LIST 3, PUT 5", 8),
    ("set-offsets {store}/kafka {new} --by -1 --clamp", "DELETES 1, GET 3, HEAD 2, LIST 3, PUT 4", 6),
    ("rename {sp} {new} accounts=customers", "COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 7),
    ("copy-operator {sp} {new} accounts other", "COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 8),
    ("remove {sp} {new} currency-converter", "COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 8),
    ("remove-keys {sp} {new} accounts --keys 1042", "COPY 1, DELETES 1, GET 6, HEAD 2, LIST 3, PUT 5", 10),
    ("erase {sp} {new} --keys 1042", "COPY 1, DELETES 1, GET 12, HEAD 2, LIST 5, PUT 5", 16),
    ("rename-class {sp} {new} oracle.Shop$Profile=com.shop.Profile", "DELETES 1, GET 7, HEAD 2, LIST 3, PUT 6", 9),
    ("rekey {sp} {new} accounts --type key=STRING", "DELETES 1, GET 5, HEAD 2, LIST 3, PUT 6", 8),
    ("set-max-parallelism {sp} {new} 64", "DELETES 1, GET 5, HEAD 2, LIST 3, PUT 8", 9),
    ("salvage {store}/damaged {new}", "COPY 1, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 8),
    ("create {new} new {files}/rows.jsonl --key id --flink 2.3", "DELETES 1, GET 2, HEAD 2, LIST 3, PUT 5", 6),
    ("put {sp} {new} new {files}/rows.jsonl --key id", "COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 5", 8),
    ("merge {sp} {store}/sql {new}", "COPY 2, DELETES 1, GET 6, HEAD 2, LIST 3, PUT 4", 8),
    ("split {sp} --to {new} accounts --rest {store}/out/rest", "COPY 2, DELETES 2, GET 8, HEAD 6, LIST 7, PUT 6", 15),
    ("migrate {sp} {new} --flink 2.3", "COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 8),
    ("vacuum {store}/left --older-than 0s", "DELETES 2, GET 1, HEAD 1, LIST 4", 8),
    ("cp {sp} {new}", "COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 7),
    ("pin {sp} {new}", "COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 7),
    ("relocate {store}/referred {sp} {sp} {new}", "DELETES 1, GET 3, HEAD 4, LIST 3, PUT 4", 7),
)
COMMANDS = {words.split()[0]: words for words, _, _ in DECLARED}
REQUESTS = {words.split()[0]: (kinds, most) for words, kinds, most in DECLARED}


def words_of(name: str, files: Path, bucket: str = BUCKET) -> list[str]:
    """Return the words of a command on what :func:`fill` has put into a bucket and a folder."""
    plans = evolve_words("agg-reorder")[2:]
    given = {"store": bucket, "sp": f"{bucket}/job/shop", "new": f"{bucket}/out/new", "files": files}
    words = COMMANDS[name].split()
    return [one for word in words for one in (plans if word == "{plans}" else [word.format(**given)])]


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
