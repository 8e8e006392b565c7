"""Pages by task: each is short, and each block of code on it runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyspark_savepoint import errors
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.connector.api.test_evolve_history import orders
from tests.prose import Prose
from tests.remote.measured_store import MeasuredStore, measured_store
from tests.remote.storage import CREDENTIALS
from tests.statebackends.evolution.verdicts import changes

GUIDE = Path(__file__).parents[2] / "connector" / "guide"
#: Pages with other forms and tests of their own.
OTHERS = frozenset({"answers.md", "glossary.md", "sql-changes.md"})
PAGES = sorted(page.name for page in GUIDE.glob("*.md") if page.name not in OTHERS)
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.DOTALL)
#: What a line says if its command ends with another code than 0.
CODE = re.compile(r"# exit code (\d)")


@pytest.fixture
def places(shop: Path, corpus: Path, tmp_path: Path) -> dict[str, Path]:
    """The paths of the pages: real savepoints, checkpoints of a real job, and folders that a page writes."""
    history = corpus / "history" / "2.3.0-hashmap" / "checkpoints"
    checkpoints = tmp_path / "checkpoints"
    shutil.copytree(history, checkpoints)
    damaged = Path(shutil.copytree(shop, tmp_path / "damaged"))
    max(damaged.iterdir(), key=lambda file: file.stat().st_size * (file.name != "_metadata")).unlink()
    changed = corpus / "sql-changes" / "2.3.0" / "sum-backfilled"
    refused = {
        "planless": changes() / "2.3.0" / "ids-planless",
        "other-names": changes() / "2.3.0" / "rename-tables",
        "alike": changes() / "2.3.0" / "two-alike",
        "filtered": corpus / "sql-changes" / "2.3.0" / "filter-in-front",
    }
    for name, folder in {".": changed, **refused}.items():
        (tmp_path / name).mkdir(exist_ok=True)
        for file in (*folder.glob("*.json"), *folder.glob("*.txt")):
            shutil.copy(file, tmp_path / name / file.name)
    (tmp_path / "tables").mkdir()
    for folder in (tmp_path, tmp_path / "tables"):
        pq.write_table(orders(), folder / "orders.parquet")
    classes = shutil.make_archive(str(tmp_path / "job"), "zip", corpus / "migration" / "classes")
    Path(classes).rename(tmp_path / "job.jar")
    return {
        "/savepoints/shop-sql": changed / "before",
        **{f"/savepoints/{name}": folder / "before" for name, folder in refused.items()},
        "/savepoints/savepoint-2f1a3c": shop,
        "/savepoints/damaged": damaged,
        "/savepoints/of-kryo": corpus / "migration" / "cases" / "kryo-u-inner" / "1.20.5-hashmap",
        "/savepoints/orders": next((corpus / "connectors" / "2.3.0-kafka-v5.0.0").glob("savepoint-*")),
        "/checkpoints/7d2e": checkpoints,
        "/savepoints": tmp_path / "savepoints",
        "/tables": tmp_path / "tables",
    }


def placed(code: str, places: Mapping[str, Path]) -> str:
    """The code of a page with the paths that are there."""
    for name, path in places.items():
        code = re.sub(rf"(?<![\w/]){name}(?![\w-])", str(path), code)
    return code


def run_shell(code: str, folder: Path) -> None:
    """Run a block line by line as a shell does; a line that says so ends with another exit code than 0."""
    lines = ["set -e"]
    for line in code.splitlines():
        found = CODE.search(line)
        lines.append(f"{{ {line.split('  # ')[0]}; }} || [ $? = {found[1]} ]" if found else line)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{code}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"


@pytest.fixture
def bucket(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[MeasuredStore]:
    """The same paths in an object store."""
    store_of.cache_clear()
    with measured_store() as store:
        for name in ("/savepoints/savepoint-2f1a3c", "/checkpoints/7d2e"):
            store.upload(places[name], name[1:])
        for variable, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": store.endpoint}.items():
            monkeypatch.setenv(variable, value)
        yield store
    store_of.cache_clear()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.thorough  # each page in full, most with Spark
def test_the_code_of_a_page_runs(
    page: str, places: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = BLOCK.findall((GUIDE / page).read_text("utf-8"))
    if any(language == "python" and "spark" in code.replace("pyspark", "") for language, code in blocks):
        names["spark"] = request.getfixturevalue("spark")
    if any("s3://" in code for _, code in blocks):
        request.getfixturevalue("bucket")
    for language, code in blocks:
        if language == "bash":
            run_shell(placed(code, places), tmp_path)
        else:
            exec(compile(placed(code, places), str(GUIDE / page), "exec"), names)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_read_in_minutes(page: str) -> None:
    text = (GUIDE / page).read_text("utf-8")
    read = re.sub(r"^```text\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE) if page == "errors.md" else text
    words = [word for word in read.split() if word.strip("|-#*")]  # and not the rules of tables
    assert len(words) <= (1000 if page == "errors.md" else 800)
    prose = Prose.of(text)
    assert max(prose.words) <= 35, prose.longest(1)
    assert prose.semicolons <= 0.05
    assert "## What can go wrong" in text or page in {"architecture.md", "errors.md"}


def test_the_page_of_errors_has_a_heading_for_each_class() -> None:
    headings = re.findall(r"^### (\w+)$", (GUIDE / "errors.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(set(errors.__all__) - {"SavepointError"})
