"""Commands erase and verify-erasure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyspark_savepoint
from tests.connector.command_line.conftest import Run


def test_erase_and_prove(run: Run, shop: Path, tmp_path: Path) -> None:
    new, report = tmp_path / "new", tmp_path / "report.json"
    pq.write_table(pa.table({"id": pa.array([1042, 7], pa.int64())}), tmp_path / "ids.parquet")
    keys = ("--keys-file", tmp_path / "ids.parquet")
    where = ("--where", "warehouse-export.pending_orders: value.accountId = 1042")

    dry = run("erase", shop, new, *keys, *where, "--dry-run", "--below", tmp_path)
    assert (dry.code, new.exists()) == (1, False)
    assert "6 rows would be removed: nothing was written" in dry.out

    done = run("erase", shop, new, *keys, *where, "--report", report, "--below", tmp_path, "--json")
    assert done.code == 0
    assert {"operator": "accounts", "table": "keyed_state", "state": "total", "seen": 200, "removed": 1} in done.records
    assert "# Erasure from the state of a Flink job" in (tmp_path / "report.md").read_text()

    assert run("verify-erasure", new, report, *keys, *where).out.endswith("proved\n")
    assert run("verify-erasure", new, report, *keys, *where).code == 0
    salt = (tmp_path / "report.salt").read_text().strip()
    assert salt not in report.read_text() + (tmp_path / "report.md").read_text()
    assert (tmp_path / "report.salt").stat().st_mode & 0o777 == 0o600
    (tmp_path / "report.salt").rename(tmp_path / "apart")
    assert "to do: give --salt-file, as it was" in run("verify-erasure", new, report, *keys, *where).err
    assert run("verify-erasure", new, report, *keys, *where, "--salt-file", tmp_path / "apart").code == 0
    assert run("verify-erasure", new, report, *keys, *where, "--salt-file", tmp_path / "none").code == 2
    (tmp_path / "apart").rename(tmp_path / "report.salt")
    other = run("verify-erasure", new, report, "--keys", "1043", *where)
    assert other.code == 1
    assert "the keys, or the salt, are not those of the report" in other.out


def test_numbers_and_their_texts_prove_one_another(run: Run, shop: Path, tmp_path: Path) -> None:
    """A word of the command line is a number or its text, of which rows and lists have one."""
    base, options = pyspark_savepoint.open(shop), {"salt": "secret"}
    (tmp_path / "salt").write_text("secret\n")
    by_list = base.erase([1042], to=tmp_path / "by-list", below=tmp_path, **options)
    (tmp_path / "by-list.json").write_text(by_list.to_json())
    told = ("--salt-file", tmp_path / "salt")
    for keys, code in (("1042", 0), ("1043", 1), ("01042", 1)):
        ran = run("verify-erasure", tmp_path / "by-list", tmp_path / "by-list.json", "--keys", keys, *told)
        assert ran.code == code, ran.out
    report = tmp_path / "by-words.json"
    erased = run("erase", shop, tmp_path / "by-words", "--keys", "1042", "--report", report, "--below", tmp_path, *told)
    assert erased.code in (0, 1)
    new = pyspark_savepoint.open(tmp_path / "by-words")
    for number in ([1042], ["1042"], [1042, "1042"]):
        assert new.verify_erasure(report.read_text(), number, **options) == []
    for others in ([1043], [True], [1042, 1043]):
        assert new.verify_erasure(report.read_text(), others, **options)[0]["check"] == "keys"


def test_a_number_of_very_many_digits_is_a_text(run: Run, shop: Path, tmp_path: Path) -> None:
    ran = run("erase", shop, tmp_path / "new", "--keys", "9" * 5000, "--dry-run")
    assert (ran.code, ran.err) == (0, "")


def test_keys_without_a_type_are_texts_and_numbers(run: Run, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("1042\nEUR\n\n")
    (tmp_path / "salt").write_text("secret\n")
    options = ("--keys-file", tmp_path / "ids.txt", "--salt-file", tmp_path / "salt")
    report = tmp_path / "report.json"
    ran = run("erase", shop, tmp_path / "new", *options, "--below", tmp_path, "--report", report)
    assert "accounts" in ran.out
    assert "stays: currency-converter.rates.key: 1 equal, 0 inside" in ran.out
    content = json.loads(report.read_text())
    assert len(content["arguments"]["keys"]) == 3
    assert "secret" not in report.read_text()
    assert not (tmp_path / "report.salt").exists()
    proof = run("verify-erasure", tmp_path / "new", report, *options)
    assert proof.code == 1  # currencies of accounts
    assert "currency-converter.rates.key: 1 values equal to a key" in proof.out


def test_all_self_contained_savepoints_below_a_folder(run: Run, shop: Path, corpus: Path, tmp_path: Path) -> None:
    for name in ("one", "two", "deep/three"):
        shutil.copytree(shop, tmp_path / "job" / name)
    name = "datastream/udf-rocksdb-checkpoint-2.3"
    shutil.copytree(corpus / name, tmp_path / "job" / "checkpoints")
    ran = run(
        *("erase", tmp_path / "job" / "one", tmp_path / "new", "--keys", "1042", "--report", tmp_path / "new.json"),
        *("--all-below", tmp_path / "job", "--all-to", tmp_path / "all"),
    )
    assert ran.code == 0
    assert "not self-contained" in ran.out
    for path, report in (
        (tmp_path / "new", tmp_path / "new.json"),
        (tmp_path / "all" / "two", tmp_path / "all" / "two.report.json"),
        (tmp_path / "all" / "deep" / "three", tmp_path / "all" / "deep" / "three.report.json"),
    ):
        keys = pyspark_savepoint.open(path).keyed_state("accounts").select("key").to_arrow().column("key").to_pylist()
        assert 1042 not in keys
        assert run("verify-erasure", path, report, "--keys", "1042").code == 0
    assert not (tmp_path / "all" / "one").exists()


def test_what_cannot_be_erased_below_a_folder_stops_nothing(run: Run, shop: Path, corpus: Path, tmp_path: Path) -> None:
    """A broken one, one without its files, and one of another job; links are not followed."""
    job = tmp_path / "job"
    for name in ("one", "two", "broken", "half"):
        shutil.copytree(shop, job / name)
    (job / "broken" / "_metadata").write_bytes(b"nothing")
    for path in (job / "half").iterdir():
        if path.name != "_metadata":
            path.unlink()
    shutil.copytree(corpus / "datastream" / "udf-hashmap-savepoint-2.3", job / "another")
    (job / "linked").symlink_to(job / "two")
    # Where they are written is below the folder, too.
    options = ("--keys", "1042", "--where", "warehouse-export.pending_orders: value.accountId = 1042")
    words = ("erase", job / "one", job / "new", *options, "--report", tmp_path / "new.json", "--all-below", job)
    dry = run(*words, "--all-to", job / "all", "--dry-run")
    assert dry.code == 2
    assert not (job / "new").exists()
    assert not (job / "all" / "two").exists()

    ran = run(*words, "--all-to", job / "all")

    assert ran.code == 2
    assert ran.out.count("not erased: ") == 2
    assert f"2 snapshots below {job} not erased" in ran.out
    there = {path.parent.relative_to(job / "all").as_posix() for path in (job / "all").rglob("_metadata")}
    assert there == {"two", "another"}
    for name in there:
        report = job / "all" / f"{name}.report.json"
        assert run("verify-erasure", job / "all" / name, report, *options).code == 0, name
    assert run("verify-erasure", job / "new", tmp_path / "new.json", *options).code == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--keys", "1", "--keys-file", "x"), "one of them"),
        (("--keys", "1", "--by", "accounts"), "UID=COLUMN"),
        (("--keys", "1", "--where", "accounts"), "UID: CONDITION"),
        (("--keys", "1", "--all-below", "x"), "go together"),
        ((), "nothing to erase"),
    ],
)
def test_wrong_usage(run: Run, shop: Path, tmp_path: Path, options: tuple[str, ...], text: str) -> None:
    ran = run("erase", shop, tmp_path / "new", *options)
    assert ran.code == 2
    assert text in ran.err
