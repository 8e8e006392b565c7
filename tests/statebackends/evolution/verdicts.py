"""The recorded changes of queries, and their verdicts; as a script it writes ``verdicts.json`` anew."""

from __future__ import annotations

import atexit
import functools
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.evolution.changes import Evolution, FieldSource
from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of

HERE = Path(__file__).parent
VERDICTS = HERE / "verdicts.json"
ARCHIVES = sorted(HERE.glob("*.tar.xz"))


@functools.cache
def changes() -> Path:
    """Unpack the recorded changes once per process, and return their folder, which goes with the process."""
    scratch = tempfile.TemporaryDirectory(prefix="changed-queries-")
    atexit.register(scratch.cleanup)
    folder = Path(scratch.name)
    for archive in ARCHIVES:
        unpack(archive, folder)
    return folder / "changed-queries"


def names() -> list[str]:
    """The recorded changes: ``2.3.0/agg-reorder``."""
    found: list[str] = []
    for file in ARCHIVES:
        with tarfile.open(file) as archive:
            found += [name for name in archive.getnames() if name.endswith("/case.json")]
    return sorted("/".join(Path(name).parts[1:3]) for name in found)


def explained(folder: Path) -> dict[str, str]:
    """What EXPLAIN printed for the queries that ran without a plan."""
    files = {f"{side}_explain": folder / f"{side}-explain.txt" for side in ("old", "new")}
    return {name: file.read_text("utf-8") for name, file in files.items() if file.exists()}


def evolution(name: str, **options: Any) -> Evolution:
    """What becomes of the state of a recorded change."""
    folder = changes() / name
    savepoint = Snapshot.open(str(folder / "before"))
    old, new = folder / "old.json", folder / "new.json"
    return evolution_of(old, new, check_options(**options), savepoint, **explained(folder))


def shown(found: Evolution) -> dict[str, Any]:
    """The verdicts of operators, states and fields."""
    operators = {}
    for one in found.operators:
        states = {
            f"{state.old_name} -> {state.new_name}": [state.verdict.value, [_field(each) for each in state.fields]]
            for state in one.states
        }
        key = [_field(each) for each in one.key]
        operators[f"{one.old_uid} -> {one.new_uid}"] = [one.verdict.value, key, states]
    return operators


def _field(field: FieldSource) -> str:
    return f"{field.name}: {field.verdict.value}"


if __name__ == "__main__":
    every = {name: shown(evolution(name)) for name in names()}
    VERDICTS.write_text(json.dumps(every, indent=1, ensure_ascii=False) + "\n", "utf-8")
