"""Runs workers over cases: one that dies is a finding, and the next one continues after the case that killed it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.seeds import ROOT


@dataclass
class Findings:
    """Results of some cases."""

    cases: int = 0
    read: int = 0
    refused: int = 0
    problems: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Count other cases too."""
        self.cases += other.cases
        self.read += other.read
        self.refused += other.refused
        self.problems += other.problems

    def report(self) -> str:
        """The numbers, and every kind of problem once."""
        kinds = Counter(signature(problem) for problem in self.problems)
        first = {signature(problem): problem for problem in reversed(self.problems)}
        lines = [f"{self.cases} cases: {self.read} tables read, {self.refused} refused, {len(self.problems)} problems"]
        for kind, count in kinds.most_common():
            lines += [f"{count} x {kind}", f"  first: case {first[kind]['case']}: {first[kind]['problem']}"]
        return "\n".join(lines)


def signature(problem: dict[str, Any]) -> str:
    """Return a text that is equal for findings with the same cause."""
    lines = problem.get("trace", "").splitlines()
    places = [line.strip() for line in lines if "/formats/" in line or "/statebackends/" in line]
    return problem["problem"].split(":")[0] + " at " + (places[-1] if places else "an unknown place")


def run(seed: int, first: int, count: int, snapshots: int = 0, keep: Path | None = None) -> Findings:
    """Cases [first, first + count) of a seed; the inputs of problems are kept in a folder."""
    findings = Findings()
    after = first + count
    while first < after:
        cases = [f"--seed={seed}", f"--first={first}", f"--count={after - first}", f"--snapshots={snapshots}"]
        found, last = run_worker(cases, keep)
        findings.add(found)
        if last is None or not found.cases:
            break
        first = int(last.rsplit("-", 1)[1]) + 1
    return findings


def run_worker(arguments: Sequence[str], keep: Path | None) -> tuple[Findings, str | None]:
    """One process; and the case that killed it, or None."""
    findings = Findings()
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="savepoint-fuzz-") as name:
        folder = Path(name)
        snapshot, errors = folder / "snapshot", folder / "errors"
        command = [sys.executable, "-m", "tests.fuzz.worker", f"--folder={snapshot}", *arguments]
        with (
            errors.open("w") as stderr,
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stderr) as process,
        ):
            started = _follow(process, findings)
        killed = started if process.returncode else None
        if process.returncode:
            trace = errors.read_text()[-6000:]
            problem = f"Died: the process ended with {process.returncode}"
            findings.problems.append({"case": started or "none", "problem": problem, "trace": trace})
            if started and (snapshot / "_metadata").exists():
                (folder / started).write_bytes((snapshot / "_metadata").read_bytes())
        if keep is not None:
            _keep(findings, folder, keep)
    return findings, killed


def _follow(process: subprocess.Popen[bytes], findings: Findings) -> str | None:
    """Count the worker's reports; return the last case that it started."""
    started = None
    assert process.stdout is not None
    for line in process.stdout:
        result = json.loads(line)
        started = result.get("start", started)
        if "case" in result:
            findings.cases += 1
            findings.read += result.get("read", 0)
            findings.refused += result.get("refused", 0)
            if "problem" in result:
                findings.problems.append(result)
    return started


def _keep(findings: Findings, folder: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for problem in findings.problems:
        case = problem["case"]
        if (folder / case).exists():
            (keep / case).write_bytes((folder / case).read_bytes())
        (keep / f"{case}.txt").write_text(f"{problem['problem']}\n{problem.get('trace', '')}")
