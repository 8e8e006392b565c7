"""READMEs agree with the code: tables are compared, examples run, links exist."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pages import (
    CONNECTOR,
    GENERATED,
    README,
    ROOT,
    STATEBACKENDS,
    files_that_name_releases,
    naming_newest,
    section,
)

pytestmark = pytest.mark.slow("the examples of all READMEs")

SHOP = Path(__file__).parent / "oracle" / "savepoints" / "shop" / "savepoint"


def blocks(readme: Path, language: str) -> list[str]:
    """The examples in a language."""
    return re.findall(rf"```{language}\n(.*?)```", readme.read_text(), re.DOTALL)


@pytest.mark.parametrize("name", GENERATED)
def test_tables_are_those_of_the_code(name: str) -> None:
    readme, table = GENERATED[name]
    assert section(readme, name).strip() == table().strip()


def test_examples_and_ranges_name_the_newest_release() -> None:
    texts = {path: path.read_text("utf-8") for path in files_that_name_releases()}
    assert [path for path, text in texts.items() if naming_newest(text) != text] == []
    of_the_next = "\n".join(naming_newest(text, (9, 1)) for text in texts.values())
    assert "--flink 2." not in of_the_next
    assert all(name in of_the_next for name in ("--flink 9.1", "Flink 1.16 to 9.1", 'migrate("9.1"'))


def test_python_examples_run(spark: Any, tmp_path: Path) -> None:
    """Run one after the other, as a reader would: each can use the names of those before it."""
    names: dict[str, Any] = {"spark": spark, "path": str(SHOP)}
    job = tmp_path / "job"
    shutil.copytree(SHOP, job / "chk-1")
    requests = tmp_path / "requests"
    requests.mkdir()
    pq.write_table(pa.table({"key": pa.array([1042], pa.int64())}), requests / "ids.parquet")
    for readme in (README, CONNECTOR, STATEBACKENDS):
        folder = tmp_path / (readme.parent.name if readme != README else "first")
        for block in blocks(readme, "python"):
            code = block.replace("/checkpoints/7d2e.../", str(job)).replace('"/savepoints/', f'"{folder}/')
            code = code.replace('"/tables/', f'"{tmp_path}/tables/').replace('"/requests/', f'"{requests}/')
            exec(compile(code, str(readme), "exec"), names)
    names["query"].processAllAvailable()
    names["query"].stop()
    assert spark.read.parquet(f"{tmp_path}/tables/account_changes").count() == names["accounts"].count()
    assert names["accounts"].where("profile.tier = 'GOLD'").count() > 0
    assert names["bootstrapped"].keyed_state("uid").count() == 2
    assert names["fixed"].keyed_state("accounts").where("total < 0").count() == 0
    assert "spent_by_currency" not in names["fixed"].keyed_state("accounts").columns
    written = spark.read.format("savepoint").option("uid", "again").load(f"{tmp_path}/connector/new")
    assert written.count() == names["accounts"].count()
    repaired = names["Savepoint"].load(spark, f"{tmp_path}/first/repaired")
    assert repaired.keyed_state("accounts").where("total < 0").count() == 0


def test_sql_examples_run(spark: Any) -> None:
    (block,) = blocks(CONNECTOR, "sql")
    for statement in filter(str.strip, block.replace("/savepoints/savepoint-2f1a3c", str(SHOP)).split(";")):
        result = spark.sql(statement)
    assert result.count() > 1


def test_the_first_page_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 150


@pytest.mark.parametrize("readme", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("[cfnst]*/**/*.md")), ids=str)
def test_links_lead_somewhere(readme: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", readme.read_text()):
        assert target.startswith("https://") or (readme.parent / target).exists(), target
