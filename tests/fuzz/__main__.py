"""``python -m tests.fuzz --hours 2``: damaged snapshots for as long as that takes; inputs of problems are kept.

``python -m tests.fuzz --replay FOLDER/*`` reads kept inputs again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from tests.fuzz.runner import Findings, run, run_worker

BATCH = 2000


def main() -> int:
    """Run, and say what was found: 1 where there was anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="its cases are always the same; default: by chance")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for inputs of problems")
    parser.add_argument("--replay", type=Path, nargs="*", default=[], help="kept inputs, to be read again")
    args = parser.parse_args()
    if args.replay:
        inputs = [str(path.resolve()) for path in args.replay if path.suffix != ".txt"]
        findings, _ = run_worker(["--replay", *inputs], None)
        print(findings.report())
        return bool(findings.problems)
    return _for_hours(args.hours, args.seed, args.keep)


def _for_hours(hours: float, seed: int | None, keep: Path) -> int:
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    until = time.monotonic() + hours * 3600
    findings, first = Findings(), 0
    while time.monotonic() < until:
        findings.add(run(seed, first, BATCH, keep=keep))
        first += BATCH
        print(f"seed {seed}: {findings.report()}", flush=True)
    return bool(findings.problems)


if __name__ == "__main__":
    sys.exit(main())
