"""``python -m tests.faults --runs 200``: kills processes of Spark while it writes; what was found, by victim.

The exit code is 1 if a savepoint was neither the old one nor the new one, or an outcome was reported wrongly. The files
of such a run are kept in the folder.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.faults.runner import VICTIMS, attack


def main() -> int:
    """Run, and print the findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="of the order and the moments; default: by chance")
    parser.add_argument("--victims", nargs="*", choices=VICTIMS, default=list(VICTIMS))
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    folder = Path(tempfile.mkdtemp(prefix="savepoint-faults-"))
    print(f"seed {seed}, {args.runs} runs in {folder}", flush=True)
    counts, problems = attack(folder, args.runs, seed, args.victims, lambda line: print(line, flush=True))
    for what, count in sorted(counts.items()):
        print(f"{count:5d}  {what}")
    print("\n".join(problems) or "the old savepoint or the new one after every run")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
