"""``python -m tests.fuzz --hours 2``: damaged inputs of every format for as long as that takes.

``--target java`` stays with one; ``--count 100000`` ends by number. Inputs of problems are kept in a folder; those that
are worth it go to ``tests/fuzz/found/TARGET``, which the tests read again, as does ``--replay FILE... --target T``.
``--bounds`` runs kernels that check each index, from a cache of their own (:mod:`tests.fuzz.bounds`).
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from pathlib import Path

from tests.fuzz import bounds, runner
from tests.fuzz.formats import Report, fuzz
from tests.fuzz.targets import TARGETS

#: Whole snapshots, all tables, all options: what every format is read by in the end.
SNAPSHOT = "snapshot"
BATCHES = {SNAPSHOT: 500, "canonical": 2000, "heap": 2000, "changelog": 2000, "rocksdb": 2000}
BATCH = 50_000


def main() -> int:
    """Run, and print what was found: 1 where there was anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--count", type=int, default=0, help="inputs of every target; default: no end but time")
    parser.add_argument("--target", choices=[SNAPSHOT, *TARGETS], nargs="*", default=[SNAPSHOT, *TARGETS])
    parser.add_argument("--seed", type=int, default=None, help="its inputs are always the same; default: by chance")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for inputs of problems")
    parser.add_argument("--replay", type=Path, nargs="*", default=[], help="kept inputs, to be read again")
    parser.add_argument("--bounds", action="store_true", help="every read and write of compiled code is checked")
    args = parser.parse_args()
    if args.bounds:
        os.environ.update(bounds.checked())
    if args.replay:
        report = replayed(args.target[0], args.replay, args.keep)
        print(report)
        return bool(report.problems)
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    until = time.monotonic() + args.hours * 3600
    reports = {target: Report(target) for target in args.target}
    live = list(args.target)
    while live and time.monotonic() < until:
        target = live.pop(0)
        report = reports[target]
        size = BATCHES.get(target, BATCH)
        count = min(size, args.count - report.inputs) if args.count else size
        report.add(batch(target, seed, report.inputs, count, args.keep))
        print(f"seed {seed}: {report}", flush=True)
        if not args.count or report.inputs < args.count:
            live.append(target)
    print("\nin all:", *reports.values(), sep="\n")
    return any(report.problems for report in reports.values())


def batch(target: str, seed: int, first: int, count: int, keep: Path) -> Report:
    """Some inputs of a target."""
    if target != SNAPSHOT:
        return fuzz(target, seed, first, count, keep)
    start = time.monotonic()
    findings = runner.run(seed, first, count, keep=keep)
    return Report(target, findings.cases, findings.read, time.monotonic() - start, findings.problems)


def replayed(target: str, paths: list[Path], keep: Path) -> Report:
    """Kept inputs of a target."""
    inputs = [path.resolve() for path in paths if path.suffix != ".txt"]
    if target != SNAPSHOT:
        return fuzz(target, 0, 0, 0, keep, inputs)
    findings, _ = runner.run_worker(["--replay", *map(str, inputs)], None)
    return Report(target, findings.cases, findings.read, 0.0, findings.problems)


if __name__ == "__main__":
    sys.exit(main())
