"""Compiled code that one machine packs is used by others: another path, another home, no cache, Spark's archives."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pyspark_savepoint.command_line.warming import pack_compiled_code
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.kernels.all_kernels import listed
from pyspark_savepoint.formats.kernels.code_folders import MANIFEST, VARIABLE, baselines, shipped
from pyspark_savepoint.formats.kernels.interpretation import VARIABLE as FORM
from tests.connector.command_line.conftest import Run

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "tests" / "oracle" / "savepoints" / "shop" / "savepoint"

READ = """
import sys
import pyspark_savepoint
from pyspark_savepoint.command_line.warming import read_all
from pyspark_savepoint.formats.kernels import numbers, walk

tables = read_all(pyspark_savepoint.open(sys.argv[1]))
made = sum(kernel.compiled_here for kernel in (numbers.read_i64, walk.merge_key_groups))
print(tables > 5, made, len(walk.merge_key_groups.signatures), "numba" in sys.modules)
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the code of one savepoint needs, packed."""
    file = tmp_path_factory.mktemp("packed") / "code.zip"
    assert pack_compiled_code(file, SHOP) > 5
    return file


def read(tmp_path: Path, code: Path | str, *, python: str = sys.executable, form: str = "compiled") -> tuple[str, str]:
    """Read a savepoint on a machine that has compiled nothing; what is printed, and what is said."""
    home = tmp_path / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    environment = {**os.environ, FORM: form, VARIABLE: str(code), "HOME": str(home), "NUMBA_CACHE_DIR": f"{home}/cache"}
    command = [python, "-c", READ, str(SHOP)]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def unpack(code: Path, folder: Path) -> None:
    """Unpack code, as Spark does."""
    folder.mkdir()
    with zipfile.ZipFile(code) as archive:
        for name in archive.namelist():
            (folder / name).write_bytes(archive.read(name))


USED = ("True 0 1 False", "")


@pytest.mark.thorough  # kernels are packed
def test_packed_code_is_used_from_the_file_and_from_a_folder(code: Path, tmp_path: Path) -> None:
    assert read(tmp_path, code) == USED
    unpack(code, tmp_path / "unpacked")
    assert read(tmp_path, tmp_path / "unpacked") == USED
    (tmp_path / "home").mkdir(exist_ok=True)
    assert read(tmp_path, "../unpacked") == USED
    (tmp_path / "link").symlink_to(tmp_path / "unpacked")
    assert read(tmp_path, tmp_path / "link") == USED


@pytest.mark.slow  # kernels are packed several times
def test_code_that_others_may_have_written_is_not_used(code: Path, tmp_path: Path) -> None:
    unpack(code, tmp_path / "unpacked")
    folder = tmp_path / "unpacked"
    folder.chmod(0o777)
    out, said = read(tmp_path, folder)
    assert out == "True 2 1 True"
    assert f"compiled code of {folder} is not used: others may write to {folder}" in said
    folder.chmod(0o755)
    (folder / MANIFEST).chmod(0o666)
    assert "may write to" in read(tmp_path, folder)[1]
    (folder / MANIFEST).chmod(0o644)
    for file in folder.glob("*.code"):
        file.chmod(0o666)
    assert read(tmp_path, folder)[0] == "True 2 1 True"


@pytest.mark.parametrize(
    ("place", "name", "value", "why"),
    [
        ("made with", "numba", "0.1", "it was made with numba '0.1'"),
        ("made with", "kernels", "0", "it was made with kernels '0'"),
        ("made with", "python", "cpython-27", "it was made with python 'cpython-27'"),
        ("target", "triple", "riscv64-unknown-linux-gnu", "it was made for riscv64-unknown-linux-gnu"),
        ("target", "cpu", "znver99", "it was made for znver99"),
    ],
)
def test_code_for_something_else_is_not_used(
    code: Path, tmp_path: Path, place: str, name: str, value: str, why: str
) -> None:
    unpack(code, tmp_path / "unpacked")
    manifest = tmp_path / "unpacked" / MANIFEST
    told = json.loads(manifest.read_text())
    told[place][name] = value
    manifest.write_text(json.dumps(told))
    pack, reason = shipped(str(tmp_path / "unpacked"))
    assert pack is None
    assert reason is not None
    assert why in reason


def test_what_is_no_pack_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"PK")
    for path in (tmp_path, tmp_path / "file", tmp_path / "missing"):
        assert shipped(str(path)) == (None, f"{path} has no {MANIFEST}")


def test_names_of_processors(run: Run, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no such baseline"):
        pack_compiled_code(tmp_path / "code.zip", cpu="pentium")
    done = run("warm-up", "--cpu", next(iter(baselines())))
    assert (done.code, "--cpu needs --file" in done.err) == (2, True)


@pytest.mark.thorough("compiles, as the function does")
def test_the_command_packs(run: Run, tmp_path: Path) -> None:
    (record,) = run("warm-up", SHOP, "--file", tmp_path / "code.zip", "--json").records
    assert record["file"] == str(tmp_path / "code.zip")
    assert record["kernels"] == len(zipfile.ZipFile(tmp_path / "code.zip").namelist()) - 1
    assert run("warm-up", SHOP, "--file", tmp_path / "missing" / "code.zip").code == 2


#: Reads and writes what few jobs have; prints which kernels were compiled.
EVERYTHING = """
import json, pickle, sys, warnings
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyspark_savepoint
from pyspark_savepoint.command_line import warming
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.kernels import all_kernels
from pyspark_savepoint.formats.pickle_walker import decode_pyflink
from pyspark_savepoint.formats.serializers.base import UnknownPayloads
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.statebackends.rows.state_entries import encode_column

warnings.simplefilter("ignore")
corpus, recorded, room = map(Path, sys.argv[1:])
rows = {"kryo": 0, "written": 0, "tables": 0, "edited": 0}
for kryo, release in ((2, "1.20.5"), (5, "2.3.0")):
    for each in json.loads((corpus / "migration" / f"bytes-{release}.json").read_text()).values():
        values = [bytes.fromhex(value) for value in each.get("values", ()) if not value.startswith("!")]
        for job in (None, JobClasses((str(corpus / "migration" / "classes"),), kryo=kryo)):
            if "snapshot" not in each or not values:
                continue
            snapshot = DataInputView(bytes.fromhex(each["snapshot"]))
            options = DecodeOptions(kryo=kryo, timestamps="truncate")
            try:
                serializer = snapshot_reader(snapshot, UnknownPayloads(classes=job)).versioned()
                column = serializer.decode(Cursors.over(values * 40, options=options))
                rows["kryo"] += "Kryo" in type(serializer).__name__
                encode_column(serializer, column)
                rows["written"] += "Kryo" in type(serializer).__name__
            except (SavepointError, NotImplementedError):
                pass
decode_pyflink(pa.array([pickle.dumps({"a": at, "b": [str(at), None, 2.5]}) for at in range(100)]))
for archive in sorted(recorded.rglob("*.tar.xz")):
    warming.unpack(archive, room / archive.parent.name / archive.stem)
numbers = range(5000)
prices = pa.array([Decimal(7**at % 10**30).scaleb(-2) for at in numbers], pa.decimal128(38, 2))
for most in (128, 4096, 32768):
    table = pa.table({"key": pa.array(numbers, pa.int64()), "price": prices})
    made = pyspark_savepoint.create(max_parallelism=most)
    made.with_operator("prices", table, key="key").write(room / f"prices-{most}")
warming.unpack(warming.SAMPLES, room / "samples")
(room / "shop").symlink_to(recorded / "shop")
(room / "changelog").symlink_to(recorded / "changelog")
for metadata in sorted([*room.rglob("_metadata"), *recorded.rglob("_metadata")]):
    savepoint = pyspark_savepoint.open(metadata.parent, allow_outside=True)
    rows["tables"] += warming.read_all(savepoint)
    if "changelog" in str(metadata) or "rocksdb" in str(metadata) or "prices" in str(metadata):
        uids = {dict(row["options"]).get("uid") for row in savepoint.states().rows() if row["kind"] == "VALUE"}
        for uid in uids - {None}:
            key = next(iter(savepoint.keyed_state(uid).rows()))["key"]
            try:
                savepoint.remove_keys(uid, [key]).write(f"{room}/edited-{rows['tables']}-{uid}")
                rows["edited"] += 1
            except SavepointError as error:
                print(uid, error, file=sys.stderr)
compiled = {}
for name in {name for name, _ in all_kernels.listed()}:
    kernel = all_kernels.kernel_named(name)
    if kernel.compiled_here:
        compiled[name] = [str(each) for each in kernel.signatures]
print(json.dumps([rows, compiled]))
"""


@pytest.mark.slow("compiles all kernels: minutes")
def test_a_pack_of_all_kernels_has_those_of_kryo_pickles_changelogs_and_many_key_groups(
    corpus: Path, tmp_path: Path
) -> None:
    code, home = tmp_path / "code.zip", tmp_path / "home"
    assert pack_compiled_code(code) == len(listed())
    home.mkdir()
    environment = {**os.environ, FORM: "compiled", VARIABLE: str(code), "HOME": str(home)}
    environment["NUMBA_CACHE_DIR"] = f"{home}/cache"
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING, str(corpus), str(SHOP.parents[1]), str(tmp_path)],
        cwd=home, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    rows, compiled = json.loads(done.stdout)
    assert compiled == {}
    assert rows["edited"] > 5, rows
    assert min(rows["kryo"], rows["written"], rows["tables"]) > 50, rows
    assert not list(home.rglob("*.code"))


#: Reads with Spark in a cluster whose executors get the code as an archive; prints what they have compiled.
IN_A_CLUSTER = """
import sys
from pathlib import Path

import pyspark_savepoint
from pyspark.sql import SparkSession

code, path, home = sys.argv[1:]
spark = (
    SparkSession.builder.master("local-cluster[1,1,1024]")
    .config("spark.archives", f"{code}#code")
    .config("spark.executorEnv.PYSPARK_SAVEPOINT_CODE", "code")
    .config("spark.executorEnv.PYSPARK_SAVEPOINT_KERNELS", "compiled")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    .getOrCreate()
)
totals = spark.read.format("savepoint").option("uid", "accounts").option("state", "total").load(path)
rows = totals.selectExpr("count(total)").collect()

def loaded(_):
    import os, sys
    import numpy as np
    from pyspark_savepoint.formats.kernels import numbers
    kernel, out = numbers.read_i64, np.zeros(1, np.int64)
    kernel(np.ones(8, np.uint8), np.zeros(1, np.int64), np.full(1, 8), out)
    used = kernel.compiled_here, len(kernel.signatures), "numba" in sys.modules, hex(out[0])
    return [(os.environ["PYSPARK_SAVEPOINT_CODE"], *used)]

executors = spark.sparkContext.parallelize([1], 1).mapPartitions(loaded).collect()
print(rows[0][0], executors, Path(pyspark_savepoint.__file__))
"""


@pytest.mark.slow  # a cluster starts, and a package is installed
def test_executors_of_a_cluster_use_it_from_archives_with_a_package_installed_elsewhere(
    code: Path, tmp_path: Path
) -> None:
    venv, home = tmp_path / "elsewhere" / "venv", tmp_path / "home"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next(venv.glob("lib/python*/site-packages"))
    here = next(path for path in map(Path, sys.path) if path.name == "site-packages" and path.exists())
    # Everything but this package is found where it is; the package is copied, with other times.
    (site / "others.pth").write_text(f"{here}\n")
    package = site / "pyspark_savepoint"
    package.mkdir()
    for name in ("connector", "formats", "statebackends"):
        target = package if name == "connector" else package / name
        shutil.copytree(ROOT / name, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    for file in package.rglob("*.py"):
        os.utime(file, (1, 1))
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "NUMBA"))}
    python = str(venv / "bin" / "python")
    environment = {**kept, "HOME": str(home), "NUMBA_CACHE_DIR": f"{home}/cache", "PYSPARK_PYTHON": python}
    done = subprocess.run(
        [python, "-c", IN_A_CLUSTER, str(code), str(SHOP), str(home)],
        cwd=home, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == f"200 [('code', 0, 1, False, '0x101010101010101')] {package / '__init__.py'}"
    assert not list(home.rglob("*.code"))
