"""The sections of READMEs that the code writes, and the keyword types of options.

    python -m tests.pages     # writes them anew, after a change of an option, a serializer, a type or a release

It also names the newest release of Flink in every example, and in every sentence about the releases that are written
for. tests/test_readme.py fails where a page is not as the code says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import astuple
from pathlib import Path

from pyspark_savepoint.command_line.reference import markdown
from pyspark_savepoint.formats.connectors.payloads.connector import Effect, Refusal
from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTABLES
from pyspark_savepoint.formats.connectors.registry import KNOWN_CONNECTORS
from pyspark_savepoint.formats.filesystems.storage_options import storage_options_table
from pyspark_savepoint.formats.flink_releases import NEWEST_FLINK
from pyspark_savepoint.formats.serializers.registry import known_serializers
from pyspark_savepoint.options.bootstrap_options import processing_options_table
from pyspark_savepoint.options.option_fields import named
from pyspark_savepoint.options.options import SavepointReadOptions, options_table
from pyspark_savepoint.options.write_options import write_options_table
from pyspark_savepoint.statebackends.requests.applicability import FEED, NAMES, STREAM, TABLES
from pyspark_savepoint.statebackends.writing.planning.flink_types import defaults_table
from tests.error_examples import classes
from tests.journeys import journeys_table, sizes_table

ROOT = Path(__file__).parents[1]
README, CONNECTOR, FORMATS, STATEBACKENDS = (
    ROOT / folder / "README.md" for folder in ("", "connector", "formats", "statebackends")
)
KEYWORDS = ROOT / "connector" / "options" / "keywords.py"
ERRORS = ROOT / "connector" / "guide" / "errors.md"


def found_section(readme: Path, name: str) -> re.Match[str]:
    """A generated section: the comments around it, and the text between them."""
    begin, end = (f"<!-- {name}: .*?-->\n", f"<!-- end of {name} -->") if readme.suffix == ".md" else (
        f"# {name}: [^\n]*\n", f" *# end of {name}"
    )  # fmt: skip
    found = re.search(f"({begin})(.*?)({end})", readme.read_text(), re.DOTALL)
    assert found, f"{readme} has no section {name}"
    return found


def section(readme: Path, name: str) -> str:
    """The text between a generated section's comments."""
    return found_section(readme, name)[2].strip()


#: Options of a read whose keywords are not those of every table: they choose the snapshot, the table or the operator.
CHOOSING = frozenset({"path", "table", "state", "storageOptions", "executionPlan", "streamGraphHasher"}) | {
    "versionAsOf", "timestampAsOf", "asOf", *NAMES, *FEED, *STREAM,
}  # fmt: skip


def table_keywords() -> str:
    """The keywords of the options of tables, in a TypedDict."""
    every = [(name, found) for name, found in named(SavepointReadOptions) if name not in CHOOSING]
    lines = [f"{found.name}: {found.metadata['typed']}" for _, found in every if found.metadata["doc"]]
    return "\n".join(f"    {line}" for line in lines)


def tables_alias() -> str:
    """The names of tables, as a type."""
    return "\n".join(["Table: TypeAlias = Literal[", *(f'    "{name}",' for name in TABLES), "]"])


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


#: What the tables of connectors call the state of coordinators.
TABLE_WORDS = {"source_coordinator": "coordinator"}
#: What all sources have in common, besides the rows of each.
OF_ALL_SOURCES = (Effect("`start_over` of any other source", "removed", "no state", "a first start"),)
REFUSED_BY_ALL = (
    Refusal("a partition in two splits", "It would be read twice."),
    Refusal(
        "a source whose coordinator has no state while its readers have splits", "All splits would be assigned again."
    ),
    Refusal("a negative offset that is no marker, a range that is already read, splits of an unknown kind"),
)


def rows(header: str, cells: Iterable[Iterable[str]]) -> str:
    """A table of a page."""
    names = header.split(" | ")
    lines = [names, ["---"] * len(names), *cells]
    return "\n".join(re.sub(" {2,}", " ", f"| {' | '.join(line)} |") for line in lines)


def connectors_table() -> str:
    """What is read and changed of each connector."""
    found = (
        (
            f"`{known.name}`{f' ({known.about})' if known.about else ''}",
            ", ".join(dict.fromkeys(TABLE_WORDS.get(kind.table, kind.table) for kind in known.kinds)) or COMMITTABLES,
            known.versions,
            known.changes,
            known.proof,
        )
        for known in KNOWN_CONNECTORS
        if known.proof
    )
    return rows("kind | tables | versions | changes | proof", found)


def effects_table() -> str:
    """What changes of sources do."""
    every = [effect for known in KNOWN_CONNECTORS for effect in known.effects] + [*OF_ALL_SOURCES]
    return rows("change | readers | enumerator | what Flink does", map(astuple, every))


def refusals_table() -> str:
    """Changes of sources that are refused."""
    every = [*REFUSED_BY_ALL, *(refusal for known in KNOWN_CONNECTORS for refusal in known.refusals)]
    return rows("change | reason", map(astuple, every))


#: The content between the comments of a generated section, and its file.
GENERATED: dict[str, tuple[Path, Callable[[], str]]] = {
    "options": (CONNECTOR, options_table),
    "tables": (KEYWORDS, tables_alias),
    "table options": (KEYWORDS, table_keywords),
    "write options": (CONNECTOR, write_options_table),
    "storage options": (CONNECTOR, storage_options_table),
    "default types": (CONNECTOR, defaults_table),
    "processing options": (STATEBACKENDS, processing_options_table),
    "serializers": (FORMATS, serializer_list),
    "connectors": (FORMATS, connectors_table),
    "changes of sources": (STATEBACKENDS, effects_table),
    "refused changes": (STATEBACKENDS, refusals_table),
    "commands": (ROOT / "connector" / "command_line" / "README.md", markdown),
    "errors": (ERRORS, classes),
}

#: Sections that a test compares with a margin, since they are measured.
MEASURED: dict[str, tuple[Path, Callable[[], str]]] = {
    "journeys": (CONNECTOR, journeys_table),
    "sizes": (CONNECTOR, sizes_table),
}


#: What stands before the newest release in examples and sentences. A claim about what was tested names its releases.
BEFORE_NEWEST = re.compile(
    r"""(--flink[ ]
        | \bflink(?:_version)?="
        | \b(?:check_)?migrat(?:e|ion)\((?:\w+,[ ])?"
        | (?:flink_version=|'flinkVersion',[ ])'(?=2\.\d+'\)[ ]or[ ]'1\.20')
        | /for-
        | \b(?:1\.8|1\.16|Flink[ ]2\.0)[ ]to[ ]
        | such[ ]as[ ](?:``|'1\.20'[ ]or[ ]')?(?=2\.\d+(?:``|'|"))
        )2\.\d+\b(?!\.\d|["`]+[ ]or[ ]later)""",
    re.VERBOSE,
)


def files_that_name_releases() -> list[Path]:
    """The pages, and the modules with docstrings and examples of users."""
    folders = ("connector", "formats", "statebackends")
    found = [path for folder in folders for kind in ("*.md", "*.py") for path in (ROOT / folder).rglob(kind)]
    return [README, ROOT / "CHANGELOG.md", ROOT / ".github" / "SECURITY.md", *sorted(found)]


def naming_newest(text: str, newest: tuple[int, int] = NEWEST_FLINK) -> str:
    """The text with the newest release where one is named as the newest."""
    return BEFORE_NEWEST.sub(lambda found: f"{found[1]}{newest[0]}.{newest[1]}", text)


def main() -> None:
    for path in files_that_name_releases():
        text = path.read_text("utf-8")
        if (named_newest := naming_newest(text)) != text:
            path.write_text(named_newest, "utf-8")
    for name, (readme, table) in {**GENERATED, **MEASURED}.items():
        found = found_section(readme, name)
        text = f"{found[1]}{table().rstrip()}\n{found[3]}"
        readme.write_text(readme.read_text().replace(found[0], text))


if __name__ == "__main__":
    main()
