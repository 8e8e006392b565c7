"""The results as a table: a row for each change, a column for each base and the backend that restored it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.oracle.matrix.bases import BASES
from tests.oracle.matrix.cells import NAMES, REFERENCED, Cell, Results

BEGIN, END = "<!-- matrix: printed by python -m tests.oracle.matrix -->", "<!-- end of matrix -->"
RECORDS = Path(__file__).parents[2] / "RECORDS.md"
#: More changes with one error are counted.
MAX_NAMED = 3
RELEASES = ("1.16.3", "1.17.2", "1.18.1", "1.19.3", "1.20.5", "2.0.2", "2.1.1", "2.2.1", "2.3.0")


def columns() -> list[tuple[str, str]]:
    """Base and backend of each column."""
    return [(base.name, backend) for base in BASES.values() for backend in (base.own, base.other)]


def short(releases: Iterable[str], known: list[str]) -> str:
    """Releases as ranges, of which none was left out: ``1.16-1.18, 2.0``."""
    chosen = sorted({known.index(release) for release in releases})
    runs: list[list[int]] = []
    for index in chosen:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    names = [release.rpartition(".")[0] for release in known]
    return ", ".join(names[run[0]] if len(run) == 1 else f"{names[run[0]]}-{names[run[-1]]}" for run in runs)


def reason(error: str) -> str:
    """Return the most useful line of an error: that of this package, or of Flink's last cause."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("pyspark_savepoint.")]
    return (own or [lines[0] if "Traceback" not in lines[0] else lines[-1]])[-1][:300]


def by_number(release: str) -> list[int]:
    """A release for sorting."""
    return list(map(int, release.split(".")))


def printed(results: Results) -> str:
    """The table, the figures above it and the errors below it, as Markdown."""
    found: dict[tuple[str, str, str], dict[str, dict[str, object]]] = defaultdict(dict)
    for name, result in results.items():
        cell = Cell(*name.split(" | "))
        found[cell.base, cell.backend, cell.change][cell.release] = result
    known = sorted({release for cells in found.values() for release in cells}, key=by_number)
    every = sorted({*RELEASES, *known}, key=by_number)
    restored = [int(result["values"]) for result in results.values() if "values" in result]
    writers = sorted({str(result["base of"]) for result in results.values() if "base of" in result}, key=by_number)
    lines = [
        f"{len(restored):,} cells were restored by real Flink ({', '.join(known)}):",
        f"{sum(restored):,} values compared, {len(results) - len(restored)} cells were not restored. The bases were "
        f"written by {', '.join(writers)}.",
        "",
        "| change | " + " | ".join(f"{base}, on {backend}" for base, backend in columns()) + " |",
        "| --- |" + " --- |" * len(columns()),
    ]
    errors: dict[tuple[str, str], list[str]] = defaultdict(list)
    for change in NAMES:
        texts = []
        for base, backend in columns():
            cells = found[base, backend, change]
            good = [release for release, result in cells.items() if "values" in result]
            bad = {release: result for release, result in cells.items() if "error" in result}
            text = short(good, every)
            if bad:
                text = f"{text}, not {short(bad, every)}" if text else f"not {short(bad, every)}"
                for result in bad.values():
                    errors[f"{base} on {backend}", reason(str(result["error"]))].append(change)
            only = change == REFERENCED and BASES[base].only_own and backend != BASES[base].own
            texts.append(text or ("own files" if only else "not run"))
        lines.append(f"| {change.replace('|', ' ')} | {' | '.join(texts)} |")
    if errors:
        lines.append("")
    for (where, error), changes in errors.items():
        names = sorted(set(changes))
        which = f"{len(names)} changes" if len(names) > MAX_NAMED else "; ".join(names)
        lines += [f"* {where}, {which}:", f"  {error}"]
    return "\n".join(lines)
