"""Run workers over damaged inputs of a format: one that dies is a finding, and the next continues after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.format_worker import REPORT, Current
from tests.fuzz.seeds import ROOT

FOUND = Path(__file__).parent / "found"


@dataclass
class Report:
    """Results of some inputs of a target."""

    target: str
    inputs: int = 0
    read: int = 0
    seconds: float = 0.0
    problems: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Count other inputs too."""
        self.inputs += other.inputs
        self.read += other.read
        self.seconds += other.seconds
        self.problems += other.problems

    def __str__(self) -> str:
        kinds = Counter(problem["problem"].partition(":")[0] for problem in self.problems)
        found = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing"
        return f"{self.target:10} {self.inputs:9} inputs, {self.read} read, {self.seconds:.0f} s, found: {found}"


def fuzz(
    target: str,
    seed: int,
    first: int,
    count: int,
    keep: Path,
    replay: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
) -> Report:
    """Read inputs of a target; those of problems are kept in a folder. ``environment`` adds to that of this process."""
    report = Report(target)
    end = first + count
    start = time.monotonic()
    while first < end or replay:
        done = _run(target, seed, first, end - first, keep, replay, report, environment or {})
        first, replay = first + done, ()
    report.seconds = time.monotonic() - start
    return report


def _run(
    target: str,
    seed: int,
    first: int,
    count: int,
    keep: Path,
    replay: Sequence[Path],
    report: Report,
    more: Mapping[str, str],
) -> int:
    """Run one worker; return the number of inputs that it read, including one that killed it."""
    with tempfile.TemporaryDirectory(prefix="savepoint-fuzz-") as folder:
        current, errors = Path(folder) / "current", Path(folder) / "stderr"
        command = [sys.executable, "-m", "tests.fuzz.format_worker", "--target", target, "--current", str(current)]
        command += ["--seed", str(seed), "--first", str(first), "--count", str(count)]
        command += ["--replay", *map(str, replay)] if replay else []
        environment = {**os.environ, "PYTHONHASHSEED": "0", **more}
        inputs = read = 0
        finished = False
        with (
            errors.open("w") as stderr,
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stderr) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                said = json.loads(line)
                inputs, read = said.get("inputs", inputs), said.get("read", read)
                finished = finished or "finished" in said
                if "problem" in said:
                    report.problems.append(said)
                    _keep(keep, said["name"], (Path(folder) / said["name"]).read_bytes(), said)
        if not finished:
            # The next worker continues after the last report and the inputs of the report that is missing.
            name = f"{target}-{seed}-died-{first + inputs}"
            said = {"name": name, "problem": f"Died: {process.returncode}", "trace": errors.read_text()[-6000:]}
            report.problems.append(said)
            _keep(keep, name, Current.of(current) if current.exists() else b"", said)
            inputs = min(inputs + REPORT, count)
        report.inputs += inputs
        report.read += read
        return max(inputs, 1)


def _keep(keep: Path, name: str, data: bytes, said: dict[str, Any]) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    (keep / name).write_bytes(data)
    (keep / f"{name}.txt").write_text(f"{said['problem']}\n{said.get('trace', '')}")
