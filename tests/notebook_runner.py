"""Runs the notebooks, each in a kernel of this Python and a scratch folder: for their tests, and to keep their outputs.

    python -m tests.notebook_runner                     # all of them: `make notebooks`
    python -m tests.notebook_runner 03_find_and_repair  # those named
    python -m tests.notebook_runner --check             # keeps nothing: says where outputs are not those that are kept

A notebook runs in a folder ``notebooks`` that has the repository's ``tests`` beside it, as in the repository; so
its files are deleted afterwards. Outputs are kept without data of the machine: no times, no absolute paths.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.short_lived_jvm import SUBMIT_ARGUMENTS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
SECONDS_FOR_A_CELL = 300
#: What Spark's workers print beside a cell, which comes below it in one run and not in another: of each query with
#: ``transformWithState``, warnings of a read, which Spark has only as text, and that the first use compiles.
OF_WORKERS = re.compile(
    r"(\s*((Starting )?Streaming TransformWithStateInPandas Python worker|(WARNING )?savepoint: )[^\n]*\s*)+"
)
#: How long something took, and sizes of what a scheduler has cut.
VARIES = re.compile(r"\d+ tasks?, [\d.]+ s")
#: Where a warning says that it comes from: a file that the kernel makes of a cell.
CELL = re.compile(r"\S*ipykernel_\d+\S+\.py:\d+: ")


def read(name: str) -> nbformat.NotebookNode:
    """A notebook of the repository."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def run(name: str, scratch: Path) -> nbformat.NotebookNode:
    """Return the notebook with new outputs; raise CellExecutionError for the first cell that fails."""
    notebook = read(name)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    place = scratch / "notebooks"
    place.mkdir(parents=True)
    (scratch / "tests").symlink_to(ROOT / "tests")
    NotebookClient(
        notebook,
        timeout=SECONDS_FOR_A_CELL,
        kernel_name="python3",
        resources={"metadata": {"path": str(place)}},
        record_timing=False,
    ).execute(env=environment(scratch))
    # Spark's JVM prints where it runs, among other lines.
    (setup, *_) = (cell for cell in notebook.cells if cell.cell_type == "code")
    setup.outputs = [output for output in setup.outputs if output.get("name") != "stderr"]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for output in cell.outputs:
                if "text" in output:
                    output["text"] = OF_WORKERS.sub("", output["text"])
            cell.outputs = [output for output in cell.outputs if output.get("text") != ""]
    return relative(notebook, place)


def environment(scratch: Path) -> dict[str, str]:
    """That of the kernel, which does not take a Spark of this process for its own."""
    taken = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE")
    own = {name: value for name, value in os.environ.items() if name not in taken}
    here = {"PYSPARK_PYTHON": sys.executable, "IPYTHONDIR": str(scratch / "ipython")}
    return {"PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS, **own, **here}


def relative(notebook: nbformat.NotebookNode, place: Path) -> nbformat.NotebookNode:
    """The notebook with paths in outputs as they are seen from its folder."""
    for output in outputs(notebook):
        texts = output.get("data", output)
        for kind in ("text", "text/plain", "text/html"):
            for folder in (place.resolve(), place) if kind in texts else ():
                texts[kind] = texts[kind].replace(f"{folder}{os.sep}", "").replace(f"{folder.parent}{os.sep}", "../")
        if "text" in texts:
            texts["text"] = CELL.sub("", texts["text"])
    return notebook


def outputs(notebook: nbformat.NotebookNode) -> Iterator[Mapping[str, Any]]:
    """What the cells gave."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            yield from cell.outputs


def plain(notebook: nbformat.NotebookNode) -> list[str]:
    """What every output says in plain text, but for what no two runs have alike; figures only that they are there."""
    said = []
    for output in outputs(notebook):
        data = output.get("data", {"text/plain": output.get("text", "")})
        text = "figure" if "image/png" in data else data["text/plain"]
        said.append(VARIES.sub("... tasks, ... s", text))
    return said


def main(names: list[str]) -> int:
    """Run notebooks, and keep their outputs or compare them with those that are kept; return the exit code."""
    check = "--check" in names
    different = 0
    for name in [name for name in names if name != "--check"] or NAMES:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            notebook = run(name, Path(scratch))
        if not check:
            nbformat.write(notebook, FOLDER / f"{name}.ipynb")
        elif plain(notebook) != plain(read(name)):
            different = 1
            lines = difflib.unified_diff(plain(read(name)), plain(notebook), "kept", "now", lineterm="")
            print("\n".join(lines))
        print(f"notebooks/{name}.ipynb ({time.monotonic() - start:.0f} s)", flush=True)
    return different


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
