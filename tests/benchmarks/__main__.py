"""Measure the table of benchmarks: all of it, or some of its parts.

    python -m tests.benchmarks                      every part, one after the other, each in a process of its own
    python -m tests.benchmarks write listing        these parts
    python -m tests.benchmarks --readme             and write the table into the README beside this file
    python -m tests.benchmarks --shown --readme     write it of what was measured before

Each part takes two to nine minutes on two cores. What it has measured is kept in ``build/benchmarks``, so that parts
can run on different days: the table says of each when it ran, and how busy the machine was.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.benchmarks.measure import HEAD, Figure
from tests.benchmarks.parts import PARTS, Run

RESULTS = Path("build/benchmarks")
#: Of parts that have another number of keys by default.
KEYS = {"stores": 1_000_000}
README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- measured: python -m tests.benchmarks --readme -->", "<!-- end of what was measured -->"


def main(arguments: list[str] | None = None) -> None:
    """Run parts in processes of their own, and print their table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--keys", type=int, help="of the savepoints, 4,000,000 by default, 1,000,000 in stores")
    parser.add_argument("--runs", type=int, default=5, help="after the first one, 5 by default")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of results")
    parser.add_argument("--store", choices=("s3", "google", "azure"), help="of part stores; all by default")
    parser.add_argument("--readme", action="store_true", help="write the table into the README of benchmarks")
    parser.add_argument("--shown", action="store_true", help="measure nothing")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.parts) - set(PARTS))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    parts = given.parts or list(PARTS)
    if given.here:
        for part in parts:
            measure(part, given.keys or KEYS.get(part, 4_000_000), given.runs, given.results, given.store)
        return
    if not given.shown:
        options = ["--here", f"--runs={given.runs}", f"--results={given.results}"]
        options += [f"--keys={given.keys}"] if given.keys else []
        options += [f"--store={given.store}"] if given.store else []
        for part in parts:
            subprocess.run([sys.executable, "-m", "tests.benchmarks", part, *options], check=True)
    table = "\n\n".join(shown(json.loads(path.read_text())) for path in results(given.results))
    print(f"\n{table}")
    if given.readme:
        text = README.read_text("utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        README.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", "utf-8")


def measure(part: str, keys: int, runs: int, folder: Path, store: str | None = None) -> None:
    """Measure one part, and keep what was found."""
    folder.mkdir(parents=True, exist_ok=True)
    busy, start = os.getloadavg()[0], time.monotonic()
    print(f"\n{part}: {PARTS[part].__doc__}\n{HEAD}", flush=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
        for figure in PARTS[part](Run(Path(scratch), keys, runs, store)):
            print(figure.row(), flush=True)
            figures.append(figure)
    minutes = (time.monotonic() - start) / 60
    about = {
        "part": part,
        "keys": keys,
        "date": time.strftime("%Y-%m-%d"),
        "load": round(busy, 1),
        "minutes": round(minutes, 1),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "figures": [asdict(figure) for figure in figures],
    }
    (folder / f"{part}.json").write_text(json.dumps(about, indent=1) + "\n")


def results(folder: Path) -> list[Path]:
    """Return the files of the parts that were measured, in the order of the parts."""
    return [folder / f"{part}.json" for part in PARTS if (folder / f"{part}.json").exists()]


def shown(about: dict[str, object]) -> str:
    """Return the table of one part."""
    figures = about["figures"]
    assert isinstance(figures, list)
    rows = [Figure(**figure).row() for figure in figures]
    what = (
        f"`python -m tests.benchmarks {about['part']}`: {about['keys']:,} keys, {about['date']}, {about['machine']}, "
        f"load {about['load']} before, {about['minutes']} minutes."
    )
    return "\n".join([what, "", HEAD, *rows])


if __name__ == "__main__":
    main()
