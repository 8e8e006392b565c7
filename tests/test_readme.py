"""READMEs agree with the code: tables are compared, examples run, links exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.filesystems.storage_options import storage_options_table
from pyspark_savepoint.formats.serializers.registry import known_serializers
from pyspark_savepoint.options.bootstrap_options import processing_options_table
from pyspark_savepoint.options.options import options_table
from pyspark_savepoint.options.write_options import write_options_table
from pyspark_savepoint.statebackends.writing.planning.flink_types import defaults_table

ROOT = Path(__file__).parents[1]
README, CONNECTOR, FORMATS, STATEBACKENDS = (
    ROOT / folder / "README.md" for folder in ("", "connector", "formats", "statebackends")
)
SHOP = Path(__file__).parent / "oracle" / "savepoints" / "shop" / "savepoint"


def section(readme: Path, name: str) -> str:
    """The text between a generated section's comments."""
    found = re.search(rf"<!-- {name}: .*?-->\n(.*?)\n<!-- end of {name} -->", readme.read_text(), re.DOTALL)
    assert found, f"{readme} has no section {name}"
    return found[1].strip()


def blocks(readme: Path, language: str) -> list[str]:
    """The examples in a language."""
    return re.findall(rf"```{language}\n(.*?)```", readme.read_text(), re.DOTALL)


def serializer_list() -> str:
    """Snapshot classes by package, as the README lists them."""
    packages: dict[str, list[str]] = {}
    for name in known_serializers():
        package, _, stem = name.rpartition(".")
        packages.setdefault(package, []).append(stem.rpartition("$")[2])
    return "\n".join(
        f"* `{package}`: " + ", ".join(f"`{stem}`" for stem in sorted(set(stems)))
        for package, stems in sorted(packages.items())
    )


#: The content between the comments of a generated section, and its file.
GENERATED: dict[str, tuple[Path, Callable[[], str]]] = {
    "options": (CONNECTOR, options_table),
    "write options": (CONNECTOR, write_options_table),
    "storage options": (CONNECTOR, storage_options_table),
    "default types": (CONNECTOR, defaults_table),
    "processing options": (STATEBACKENDS, processing_options_table),
    "serializers": (FORMATS, serializer_list),
}


@pytest.mark.parametrize("name", GENERATED)
def test_tables_are_those_of_the_code(name: str) -> None:
    readme, table = GENERATED[name]
    assert section(readme, name) == table().strip()


def test_python_examples_run(spark: Any, tmp_path: Path) -> None:
    """Run one after the other, as a reader would: each can use the names of those before it."""
    names: dict[str, Any] = {"spark": spark, "path": str(SHOP)}
    for readme in (README, CONNECTOR, STATEBACKENDS):
        folder = tmp_path / (readme.parent.name if readme != README else "first")
        for block in blocks(readme, "python"):
            code = block.replace("/checkpoints/7d2e.../", str(SHOP)).replace('"/savepoints/', f'"{folder}/')
            exec(compile(code, str(readme), "exec"), names)
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


@pytest.mark.parametrize("readme", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("[cfnst]*/**/README.md")), ids=str)
def test_links_lead_somewhere(readme: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", readme.read_text()):
        assert target.startswith("https://") or (readme.parent / target).exists(), target
