"""Every command on a real savepoint: text, JSON lines, exit codes, one block per error."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from pyarrow import json as arrow_json

import pyspark_savepoint
from pyspark_savepoint.command_line.commands import COMMANDS
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.command_line.reference import markdown
from pyspark_savepoint.errors import OptionError
from pyspark_savepoint.formats.kernels import _jit, code_folders
from pyspark_savepoint.formats.kernels.interpretation import notice
from pyspark_savepoint.formats.metadata.stream_handles import FileStateHandle
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.connector.command_line.conftest import Run
from tests.data import located
from tests.script import run_script

README = Path(__file__).parents[3] / "connector" / "command_line" / "README.md"


def test_the_readme_has_every_argument() -> None:
    """`python -c "from pyspark_savepoint.command_line.reference import markdown; print(markdown())"` writes it."""
    before, _, rest = README.read_text().partition("<!-- commands: generated -->\n")
    written, _, _ = rest.partition("<!-- end of commands -->")
    assert before
    assert written == markdown()


@pytest.mark.parametrize("command", [None, *(command.name for command in COMMANDS)])
def test_help_has_examples(run: Run, command: str | None) -> None:
    done = run(*filter(None, (command, "--help")))
    assert done.code == 0
    assert "examples:\n  pyspark-savepoint" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_without_a_command_help_is_shown(run: Run) -> None:
    done = run()
    assert done.code == 2
    assert "commands:" in done.out
    assert run("--version").out.strip() == pyspark_savepoint.__version__


def test_ls(run: Run, shop: Path) -> None:
    done = run("ls", shop)
    assert done.code == 0
    assert "canonical savepoint 1, 7 operators" in done.out
    assert any(line.split()[:3] == ["accounts", "keyed_state", "total"] for line in done.out.splitlines())
    assert run(shop).out == done.out  # a path alone is listed
    records = run("ls", shop, "--json").records
    total = next(record for record in records if record["state"] == "total")
    assert total["options"] == {"uid": "accounts", "table": "keyed_state", "state": "total"}


def test_ls_of_a_folder_has_its_snapshots(run: Run, shop: Path) -> None:
    records = run("ls", shop.parents[1], "--json").records
    assert {Path(record["path"]).name for record in records} >= {"savepoint", "chk-2"}
    assert "canonical savepoint" in run("ls", shop.parents[1]).out


def test_show(run: Run, shop: Path) -> None:
    done = run("show", shop, "accounts", "total", "--keys", 1042, 1043)
    assert done.out.split() == ["key", "total", "1042", "68520", "1043", "27006"]
    assert run("show", shop, "accounts", "--limit", 3, "--json").err == "... more rows: --limit 0 shows all\n"
    assert len(run("show", shop, "accounts", "--limit", 0, "--json", "--columns", "key").records) == 200
    converter = run("show", shop, "currency-converter", "rates", "--json")
    assert {record["key"] for record in converter.records} > {"EUR", "USD"}
    windows = run("show", shop, "orders-per-minute", "--keys", "USD", "--json")
    assert {record["key"] for record in windows.records} <= {"USD"}
    raw = run("show", shop, "accounts", "--limit", 1, "--json", "-o", "raw=total").records
    assert isinstance(raw[0]["total"], str)


def test_show_keys_of_all_operators(run: Run, shop: Path) -> None:
    rows = run("show", shop, "--keys", 1042, "--json").records
    (accounts,) = run("show", shop, "accounts", "--keys", 1042, "--json").records
    found = {row["state"]: json.loads(row["value"]) for row in rows if row["table"] == "keyed_state"}
    assert found == {name: value for name, value in accounts.items() if name != "key" and value is not None}
    timers = run("show", shop, "accounts", "--table", "timers", "--keys", 1042, "--json").records
    assert [json.loads(row["value"]) for row in rows if row["table"] == "timers"] == [
        {"timestamp": timer["timestamp"], "domain": timer["domain"]} for timer in timers
    ]
    assert {row["operator"] for row in rows} == {"accounts"}
    assert run("show", shop, "--keys", 9_999_999).out == "no operator has the keys\n"
    for wrong, told in (([], "name the operator"), (["--keys", 1, "--table", "timers"], "--table is for one operator")):
        assert told in run("show", shop, *wrong).err
    sp = pyspark_savepoint.open(shop)
    assert len(list(sp.find_keys([1042, "1042"]).rows())) == len(rows)
    for keys, told in (([1.5], "no operator can have any"), ([], "at least one"), ("1042", "a list")):
        with pytest.raises(OptionError, match=told):
            sp.find_keys(keys)


@pytest.mark.parametrize(
    ("condition", "fits"),
    [
        ("total > 90000", lambda row: row["total"] > 90_000),
        (
            "profile.tier = 'GOLD' AND total > 90000",
            lambda row: row["profile"]["tier"] == "GOLD" and row["total"] > 9e4,
        ),
        ("recent_amounts[] > 150.0", lambda row: any(amount > 150 for amount in row["recent_amounts"])),
        ("spent_by_currency{key} = 'EUR'", lambda row: "EUR" in row["spent_by_currency"]),
    ],
)
def test_show_where(run: Run, shop: Path, condition: str, fits: Callable[[dict[str, Any]], bool]) -> None:
    everything = run("show", shop, "accounts", "--limit", 0, "--json").records
    found = run("show", shop, "accounts", "--where", condition, "--limit", 0, "--json").records
    assert found == [row for row in everything if fits(row)]
    assert 0 < len(found) < 200
    keys = run("show", shop, "accounts", "--where", condition, "--columns", "key", "--limit", 0, "--json").records
    assert keys == [{"key": row["key"]} for row in found]
    rows = pyspark_savepoint.open(shop).keyed_state("accounts").where(condition)
    assert [row["key"] for row in rows.select("key").rows()] == [row["key"] for row in found]
    assert "did you mean 'total'" in run("show", shop, "accounts", "--where", "totl > 1").err
    with pytest.raises(OptionError, match="where: there is no column totl"):
        rows.where("totl > 1")


def test_sizes_are_added_up(run: Run, shop: Path) -> None:
    states = run("sizes", shop, "accounts", "--json").records
    groups = run("sizes", shop, "accounts", "--by", "key-group", "--json").records
    assert sum(row["bytes"] for row in states) == sum(row["bytes"] for row in groups)
    assert [row["bytes"] for row in states] == sorted((row["bytes"] for row in states), reverse=True)
    assert {row["subtask"] for row in run("sizes", shop, "accounts", "--by", "subtask", "--json").records} == {0, 1}
    assert "in all" in run("sizes", shop).out


def test_heaviest_keys_are_ranked_by_state(run: Run, shop: Path) -> None:
    rows = run("heaviest", shop, "accounts", "--top", 2, "--json").records
    assert [row["rank"] for row in rows] == [1, 2] * (len(rows) // 2)
    assert rows[0]["bytes"] >= rows[1]["bytes"]


def test_offsets_are_shown_by_partition(run: Run, corpus: Path) -> None:
    (path,) = (corpus / "connectors" / "2.3.0-kafka-v5.0.0").glob("savepoint-*")
    lines = run("offsets", path).out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["operator", "connector", "stream", "partition", "position", "subtask"],
        ["source", "kafka", "clicks", "0", "75", "1"],
        ["source", "kafka", "clicks", "1", "121", "0"],
    ]
    assert len(run("offsets", path, "source", "--json").records) == 5


def test_offsets_of_retained_checkpoints_are_the_progress_of_the_job(run: Run, corpus: Path, tmp_path: Path) -> None:
    (path,) = (corpus / "connectors" / "2.3.0-kafka-v5.0.0").glob("savepoint-*")
    job = tmp_path / "job"
    for number, to in ((41, "10"), (42, "25")):
        run("set-offsets", path, job / f"chk-{number}", "source", "--set", f"orders-1={to}")
    lines = run("offsets", job, "source", "--history").out.splitlines()
    assert lines[0].split()[:2] == ["checkpoint_id", "operator"]
    assert sorted(line.split()[5] for line in lines if " orders " in line and line.split()[4] == "1") == ["10", "25"]
    assert len(lines) == 1 + 2 * 5
    newest = run("offsets", job, "--history", "--last", 1, "--json").records
    assert {row["snapshot"] for row in newest} == {str(job / "chk-42")}
    for given, told in (
        ((job, "--last", 1), "add --history"),
        ((job, "--history", "--last", 0), "at least 1"),
        ((job, "nobody", "--history"), "none of 2 snapshots has such an operator"),
        ((tmp_path / "nothing", "--history"), "no file or folder"),
    ):
        done = run("offsets", *given)
        assert done.code == 2
        assert told in done.err


def test_what_is_not_there_is_said(run: Run, shop: Path, corpus: Path, tmp_path: Path) -> None:
    done = run("export", shop, "accounts", "--file", tmp_path / "nothing" / "accounts.parquet")
    assert (done.code, done.err.splitlines()[0]) == (2, "error: there is no such folder")
    path = next((corpus / "migration" / "cases" / "record-list" / "2.3.0-hashmap").rglob("_metadata")).parent
    assert run("offsets", path).out.endswith("no source of a known kind has splits\n")


def test_offsets_are_set(run: Run, corpus: Path, tmp_path: Path) -> None:
    path = next((corpus / "connectors" / "2.3.0-kafka-v5.0.0").rglob("_metadata")).parent

    def positions(path: Path) -> dict[str, str]:
        return {
            f"{row['stream']}-{row['partition']}": row["position"] for row in run("offsets", path, "--json").records
        }

    before, new = positions(path), tmp_path / "new"
    done = run(
        *(
            "set-offsets",
            path,
            new,
            "source",
            "--set",
            "orders-1=5",
            "--set",
            "clicks=earliest",
            "--checkpoint-id",
            "42",
        )
    )
    assert pyspark_savepoint.open(new)._snapshot().metadata.checkpoint_id == 42
    assert done.code == 0
    assert "records are read again" in done.err
    assert positions(new) == before | {"orders-1": "5", "clicks-0": "earliest", "clicks-1": "earliest"}
    changed = run("diff", path, new, "--json").records
    assert [row["state"] for row in changed if row["added"] or row["removed"] or row["changed"]] == [
        "SourceReaderState"
    ]
    assert run("set-offsets", path, tmp_path / "by", "--by", "10", "--json").records[0]["operators"] == 3
    assert positions(tmp_path / "by") == {split: str(int(position) + 10) for split, position in before.items()}


def test_positions_are_shown_before_and_after(run: Run, corpus: Path, tmp_path: Path) -> None:
    path = next((corpus / "connectors" / "2.3.0-kafka-v5.0.0").rglob("_metadata")).parent
    done = run("set-offsets", path, tmp_path / "new", "--set", "clicks=10", "--dry-run")
    assert [line.split() for line in done.out.splitlines()[:3]] == [
        ["split", "before", "after"],
        ["clicks-0", "75", "10"],
        ["clicks-1", "121", "10"],
    ]
    assert "2 of 5 positions change\n" in done.out
    assert f"nothing was written: {tmp_path / 'new'} would have 3 operators" in done.out
    assert "clicks names 2 splits, each of which continues at 10: clicks-0, clicks-1" in done.err
    assert not (tmp_path / "new").exists()
    words = ["set-offsets", path, tmp_path / "new", "--by", "-100"]
    refused = run(*words)
    assert (refused.code, "cannot be moved by -100: with clamp" in refused.err) == (2, True)
    (record,) = run(*words, "--clamp", "--json").records
    after = {row["split"]: (row["before"], row["after"]) for row in record["positions"]}
    assert after["clicks-0"] == ("75", "0")
    assert after["clicks-1"] == ("121", "21")
    assert {row["position"] for row in run("offsets", tmp_path / "new", "--json").records} == {
        new for _, new in after.values()
    }
    assert record["operators"] == 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--set", "orders-1=5", "--clamp"], "'clamp' is for positions that are moved"),
        (["--set", "ordrs-1=5"], "did you mean 'orders-1'"),
        (["--set", "orders-1"], "SPLIT=POSITION"),
        (["--set", "orders-1=-5"], "whole number from 0"),
        (["--set", "orders-1=tomorrow"], "earliest"),
        ([], "one of them"),
        (["--by", "1", "--reset", "latest"], "one of them"),
        (["sink", "--by", "1"], "not a source"),
        (["--by", "1234567890123456789012"], "beyond the largest, 9223372036854775807"),
        (["--by", "9223372036854775807"], "beyond the largest"),
    ],
)
def test_offsets_that_cannot_be_set(run: Run, corpus: Path, tmp_path: Path, options: list[str], told: str) -> None:
    path = next((corpus / "connectors" / "2.3.0-kafka-v5.0.0").rglob("_metadata")).parent
    done = run("set-offsets", path, tmp_path / "new", *options)
    assert done.code == 2
    assert told in done.err, done.err
    assert not (tmp_path / "new").exists()
    assert run("set-offsets", path, path, "--by", "1").code == 2  # there is a savepoint


def test_verify_says_what_is_damaged(run: Run, shop: Path, tmp_path: Path) -> None:
    done = run("verify", shop)
    assert done.code == 0
    assert done.out.startswith("0 errors, 0 warnings")
    damaged = tmp_path / "damaged"
    shutil.copytree(shop, damaged)
    largest = max(
        (path for path in damaged.iterdir() if path.name != "_metadata"), key=lambda path: path.stat().st_size
    )
    largest.write_bytes(largest.read_bytes()[:-40])
    done = run("verify", damaged, "--json")
    assert done.code == 1
    assert "error" in {record["status"] for record in done.records}


def test_cp_of_a_native_savepoint_to_a_canonical_one(run: Run, tmp_path: Path) -> None:
    native = located("lab/2.2.1-rocksdb-native/savepoint")
    copied, portable = tmp_path / "copied", tmp_path / "portable"
    assert run("cp", native, copied).code == 0
    assert run("cp", native, portable, "--portable").code == 0
    assert ": native savepoint" in run("ls", copied).out.splitlines()[0]
    assert ": canonical savepoint" in run("ls", portable).out.splitlines()[0]
    assert pyspark_savepoint.open(portable).is_portable
    assert not pyspark_savepoint.open(copied).is_portable
    assert run("diff", native, portable).code == 0
    properties = Snapshot.open(str(portable)).metadata.properties
    assert properties == Snapshot.open(str(located("lab/2.2.1-hashmap-canonical/savepoint"))).metadata.properties


def test_cp_and_relocate(run: Run, shop: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    assert run("cp", shop, copied).code == 0
    states = run("ls", copied, "--json").out
    assert states == run("ls", shop, "--json").out
    assert run("verify", copied).code == 0
    again = run("cp", shop, copied)
    assert again.code == 2
    assert "a savepoint exists at this path already" in again.err
    nothing = run("relocate", shop, "hdfs://old", "s3://new", tmp_path / "relocated")
    assert nothing.code == 2
    assert "no file of the savepoint is recorded under 'hdfs://old'" in nothing.err


def test_relocated_files_are_found_where_they_are(run: Run, shop: Path, tmp_path: Path) -> None:
    """A checkpoint has absolute paths: its files move, and a savepoint that names the new folder is written."""
    moved, target = tmp_path / "moved", tmp_path / "relocated"
    shutil.copytree(shop.parents[1] / "changelog", moved)
    snapshot = next(moved.rglob("_metadata")).parent
    numbered = ("--checkpoint-id", "77")
    given = ["relocate", snapshot, "file:/dev/shm/savepoints/changelog", f"file:{moved}", target, *numbered]
    assert "nothing was written: " in run(*given, "--dry-run").out
    assert not target.exists()
    done = run(*given)
    assert done.code == 0, done.err
    assert Snapshot.open(str(target), allow_outside=True).metadata.checkpoint_id == 77
    assert all(path.startswith(f"file:{moved}/") for path in absolute_paths(target / "_metadata"))
    assert run("ls", target, "--allow-outside", "--json").out == run("ls", snapshot, "--allow-outside", "--json").out


def absolute_paths(metadata: Path) -> set[str]:
    operators = Snapshot.open(str(metadata)).operators
    return {one.path for operator in operators for one in streams_of(operator) if isinstance(one, FileStateHandle)}


def test_the_ending_of_a_file_is_its_format(run: Run, shop: Path, tmp_path: Path) -> None:
    total = ("export", shop, "accounts", "total", "--file")
    expected = pyspark_savepoint.open(shop).keyed_state("accounts", state="total").to_arrow().sort_by("key")
    read: dict[str, Any] = {
        "total.csv": lambda path: csv.read_csv(path),
        "total.jsonl": lambda path: arrow_json.read_json(path),
        "total.JSON": lambda path: arrow_json.read_json(path),
        "total.arrow": lambda path: pa.ipc.open_file(path).read_all(),
        "total.parquet": parquet.read_table,
        "total": parquet.read_table,
    }
    for name, rows in read.items():
        assert run(*total, tmp_path / name).code == 0
        assert rows(tmp_path / name).sort_by("key").to_pylist() == expected.to_pylist()
    assert run(*total, tmp_path / "total.xlsx", "--format", "csv").code == 0
    for words, told in (
        ((tmp_path / "new.csv", "--format", "parquet"), "--format parquet contradicts the ending of the file"),
        ((tmp_path / "new.xlsx",), "the ending of the file does not say its format"),
    ):
        refused = run(*total, *words)
        assert (refused.code, told in refused.err) == (2, True)
        assert not words[0].exists()


def test_keys_that_are_not_there_are_told(run: Run, shop: Path, tmp_path: Path) -> None:
    accounts = ("show", shop, "accounts", "total", "--keys")
    known = pyspark_savepoint.open(shop).keyed_state("accounts").to_arrow()["key"][0].as_py()
    both = run(*accounts, known, 999_999)
    assert (both.code, len(both.out.splitlines())) == (0, 2)
    assert both.err == "this key has no row: 999999; keys are of type int64\n"
    none = run(*accounts, "999999", "999998", "--json")
    assert (none.code, none.out) == (1, "")
    assert none.err == "these 2 keys have no row: 999999, 999998; keys are of type int64\n"
    assert run(*accounts, f'"{known}"').code == 0
    quoted = run("show", shop, "orders-per-minute", "--keys", '"USD"')
    assert (quoted.code, quoted.err) == (
        1,
        'this key has no row: "USD"; keys are of type string, given without quotes\n',
    )
    assert run("show", shop, "accounts", "--table", "timers", "--keys", "999999").code == 1


@pytest.mark.parametrize("form", ["parquet", "arrow", "json"])
def test_export(run: Run, shop: Path, tmp_path: Path, form: str) -> None:
    target = tmp_path / "accounts"
    done = run("export", shop, "accounts", "--format", form, "--file", target, "--columns", "key,total,profile")
    assert done.code == 0, done.err
    expected = pyspark_savepoint.open(shop).keyed_state("accounts").select("key", "total", "profile").to_arrow()
    if form == "parquet":
        assert parquet.read_table(target).sort_by("key") == expected.sort_by("key")
    elif form == "arrow":
        assert pa.ipc.open_file(target).read_all() == expected
    else:
        lines = [json.loads(line) for line in target.read_text().splitlines()]
        assert [line["total"] for line in lines] == expected["total"].to_pylist()
    assert "exists already" in run("export", shop, "accounts", "--file", target).err
    assert "exists already" in run("export", shop, "accounts", "--format", form, "--file", target).err
    assert run("export", shop, "accounts", "--format", form, "--file", target, "--force").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["accounts"]


def test_export_leaves_nothing_behind_where_it_fails(run: Run, shop: Path, tmp_path: Path) -> None:
    done = run("export", shop, "accounts", "--file", tmp_path / "there is no folder" / "x.parquet")
    assert done.code == 2
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_vacuum_lists_what_failed_writes_left(run: Run, shop: Path, tmp_path: Path) -> None:
    shutil.copytree(shop, tmp_path / "sp")
    (tmp_path / "sp" / ".pending-0123456789ab").mkdir()
    (tmp_path / "sp" / ".pending-0123456789ab" / "x").touch()
    done = run("vacuum", tmp_path / "sp", "--older-than", "0", "--dry-run", "--json")
    assert [record["kind"] for record in done.records] == ["pending"]
    assert "1 entry" in run("vacuum", tmp_path / "sp", "--older-than", "0").out
    assert not (tmp_path / "sp" / ".pending-0123456789ab").exists()
    assert run("vacuum", tmp_path / "sp", "--older-than", "soon").code == 2


def test_warm_up_reads_every_kind_of_table(run: Run) -> None:
    (record,) = run("warm-up", "--json").records
    assert record["tables"] >= 150


@pytest.mark.parametrize("word", ["--quiet", "--json"])
def test_warm_up_does_not_say_that_it_compiles_if_asked(run: Run, shop: Path, word: str) -> None:
    assert run("warm-up", shop, word).code == 0
    assert notice.text is None


#: The kernels of RocksDB's files, key groups in any order, comparisons and rows of SQL that have not been called.
WARM = """
import json, tempfile, warnings
from pathlib import Path
from typing import Any
from pyspark_savepoint.command_line.warming import use_samples
from pyspark_savepoint.formats.kernels import binaryrow, entry_table, frames, keys, numbers, skip, sst, walk

warnings.simplefilter("ignore")
with tempfile.TemporaryDirectory() as folder:
    use_samples(Path(folder))
kernels = [
    sst.decode_blocks, sst.decode_index, sst.join_values, sst.prefix_numbers, sst.resolve,
    frames.hash_rows, frames.merge_rows, walk.hash_runs, skip.locate_rows, numbers.copy_spans,
    keys.compare_runs, keys.find_keys, keys.first_unordered, keys.number_keys,
    binaryrow.read_bits, binaryrow.read_le,
    entry_table.find_entries, entry_table.find_entry, entry_table.list_entries, entry_table.put_entries,
]
print(json.dumps([kernel.__name__ for kernel in kernels if not kernel.signatures]))
"""


@pytest.mark.thorough("warm-up reads every kind of table")
def test_warm_up_compiles_what_reads_and_whole_savepoints_need() -> None:
    assert run_script(WARM)[0] == []


def test_warm_up_needs_a_folder_that_can_be_written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the install, nor the given folder, nor home, nor the temporary folder can be written."""
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", nowhere)
    monkeypatch.setenv("HOME", nowhere)
    monkeypatch.setattr(tempfile, "tempdir", nowhere)
    monkeypatch.setattr(code_folders, "__file__", f"{nowhere}/code_folders.py")
    monkeypatch.setattr(_jit, "_folder", code_folders.cache_folder())
    done = run("warm-up")
    assert done.code == 2
    assert done.err == (
        "error: compiled code cannot be cached: no cache folder is writable\n"
        f"  found: {nowhere}\n  to do: set NUMBA_CACHE_DIR to a folder that this user can write\n"
        "  more: pyspark-savepoint help OptionError\n"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["shw", "x"], "did you mean 'show'?"),
        (["show"], "to do: pyspark-savepoint show --help"),
        (["show", "SHOP", "acounts"], "did you mean 'accounts'?"),
        (["show", "SHOP", "accounts", "totl"], "did you mean 'total'?"),
        (["show", "SHOP", "accounts", "--table", "timer"], "expected keyed_state or window_state or timers"),
        (["show", "SHOP", "accounts", "--columns", "ky"], "did you mean 'key'?"),
        (["show", "SHOP", "accounts", "--keys", "x"], "key must be a value of int64"),
        (["show", "SHOP", "accounts", "--limit", "-1"], "--limit must be 0 or more"),
        (["show", "SHOP", "accounts", "-o", "timestmps=raw"], "did you mean 'timestamps'"),
        (["show", "SHOP", "accounts", "-o", "timestamps"], "--option takes NAME=VALUE"),
        (["ls", "SHOP", "--storage-option", "regoin=x"], "region"),
        (["ls", "SHOP", "--jsn"], "unrecognized arguments: --jsn"),
        (["sizes", "SHOP", "--where", "total > 5"], "to do: --where is an option of show, "),
        (["export", "SHOP", "accounts", "-o", "a.csv"], "to do: such as flatten=true; --file names the file"),
        (["export", "SHOP", "accounts", "a.csv"], "found: a.csv\n  to do: --file names the file"),
        (["ls", "/there/is/nothing"], "file: /there/is/nothing"),
        (["ls", "s4://bucket/x"], "s4"),
        (["check-restore", "SHOP", "/there/is/no/job.json"], "there is no file or folder at this path"),
        (["check-restore", "JOB", "SHOP"], "the snapshot is the first argument and the job the second"),
        (
            ["check-restore", "SHOP", "JOB"],
            "operator: accounts\n  state: total\n  found: 'LNG'\n  to do: did you mean 'LONG'?",
        ),
        (
            ["check-restore", "SHOP", "SHOP", "--flink", "7.0"],
            "expected: a release from 1.16 to 1.20, or from 2.0 to 2.3",
        ),
        (["check-restore", "SHOP", "SHOP", "--flink", "1.21"], "the Flink release is not known"),
        (["show", "", "accounts"], "a path must not be empty"),
        (["cp", "SHOP", ""], "a path must not be empty"),
        (["cp", "SHOP", "SNAPSHOTS"], "shop/savepoint-new"),
        (["relocate", "SHOP", "a", "b", "SNAPSHOTS"], "shop/savepoint-new"),
        (["cp", "SHOP", "JOB"], "there is a file at this path"),
        (["show", "SHOP", "total", "accounts"], "to do: name the operator first, then the state"),
        (["show", "SHOP", "accounts", "--columns", ""], "there is no column ''"),
        (["show", "SHOP", "accounts", "--keys", "1042,1043"], "such as --keys 1042 1043"),
        (["show", "SHOP", "accounts", "--keys", "[1042, 1043]"], "such as --keys 1042 1043"),
        (["show", "SHOP", "accounts", "--table", "timer"], "did you mean 'timers'?"),
        (["verify", "SHOP", "accounts", "total"], "to do: pyspark-savepoint verify --help"),
        (["--json", "ls", "SHOP"], "--json must come after the command"),
        (["schema", "SHOP", "--format", "avro", "--check", "x"], "--check cannot be combined with --format avro"),
        (["schema", "SHOP", "--check", "SHOP"], "found: not a regular file"),
        (["schema", "SHOP", "--check", ""], "--check must not be empty"),
        (["export", "SHOP", "accounts", "--file", "-"], "show --json --limit 0"),
        (["export", "SHOP", "accounts", "--file", "/proc/x.parquet"], "file: /proc/x.parquet\n  found: No such file"),
        (["export", "SHOP", "accounts", "--file="], "--file needs the name of a file"),
        (
            ["export", "SHOP", "accounts", "--format", "Parquet"],
            "did you mean 'parquet'? pyspark-savepoint export --help",
        ),
        (["ls", "SHOP", "--jsno"], "to do: did you mean '--json'"),
        (["ls", "MISSPELT"], ": did you mean 'savepoint'?"),
        (["doctor", "SHOP", "--budget", "ttl-age=30"], "a time with its unit, such as 90s"),
        (["doctor", "SHOP", "--budget", ""], "a budget has no name"),
        (["doctor", "SHOP", "--budget", "size=1GB,size=2GB"], "budget 'size' is given twice"),
    ],
)
def test_errors_are_one_block_that_says_what_to_do(
    run: Run, shop: Path, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    job = tmp_path / "job.json"
    job.write_text('{"operators": [{"uid": "accounts", "key": "LONG", "states": {"total": "LNG"}}]}')
    paths = {"SHOP": str(shop), "JOB": str(job), "MISSPELT": str(shop.with_name("savepiont"))}
    paths["SNAPSHOTS"] = str(shop.parent)
    done = run(*(paths.get(argument, argument) for argument in arguments))
    assert done.code == 2
    assert done.out == ""
    assert expected in done.err
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err


def test_a_fault_of_the_program_is_no_finding(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 would mean findings; a stream that cannot print a name is the example of a fault."""
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "ascii")):
        code = main(["show", str(shop), "accounts", "--limit", "2"])
    assert code == 2
    assert "error: UnicodeEncodeError: 'ascii' codec" in capsys.readouterr().err


def test_debug_shows_where(run: Run) -> None:
    with pytest.raises(pyspark_savepoint.SavepointError):
        run("ls", "/there/is/nothing", "--debug")


def test_schema_is_written_and_compared(run: Run, shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    assert run("schema", shop, "--file", path).code == 0
    assert path.read_text() == run("schema", shop).out
    assert run("schema", shop, "--check", path).code == 0
    path.write_text(path.read_text().replace('"total"', '"sum"'))
    done = run("schema", shop, "--check", path)
    assert done.code == 1
    assert "accounts, keyed_state 'sum' is gone" in done.out


def test_schema_of_rows(run: Run, shop: Path) -> None:
    avro = {record["doc"]: record for record in json.loads(run("schema", shop, "--format", "avro").out)}
    fields = {field["name"]: field["type"][1] for field in avro["accounts.keyed_state"]["fields"]}
    assert fields["total"] == "long"
    assert fields["recent_amounts"] == {"type": "array", "items": ["null", "double"]}
    assert fields["spent_by_currency"] == {"type": "map", "values": ["null", "long"]}
    assert {field["name"] for field in fields["profile"]["fields"]} >= {"city", "since"}
    rows = json.loads(run("schema", shop, "--format", "json-schema").out)
    accounts = rows["$defs"]["accounts.keyed_state"]
    (row,) = run("show", shop, "accounts", "--keys", 1042, "--json").records
    assert set(accounts["properties"]) == set(row)


def test_the_path_comes_before_the_operator(run: Run, shop: Path) -> None:
    swapped = run("show", "accounts", shop)
    assert swapped.code == 2
    assert "the path of the snapshot comes before the operator" in swapped.err
    assert f"  to do: pyspark-savepoint show {shop} accounts\n" in swapped.err
