"""The process that reads damaged snapshots: bounded in memory by the system, in time by a watchdog that needs no help.

Prints one JSON line per case before and after it, so that the parent knows which one killed it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.metadata import CheckpointMetadata, write_metadata
from tests.fuzz.damage import damaged
from tests.fuzz.reading import read_everything
from tests.fuzz.seeds import seeds_of, snapshot_paths

#: Seconds of a case, which has some dozen tables, after which the watchdog bites; for what no Python code can stop.
WATCHDOG_SECONDS = 60.0
#: Bytes of address space that all cases together may take beyond what reading sound snapshots takes.
MEMORY = 1536 << 20


def say(**facts: Any) -> None:
    """Print one line for the parent."""
    print(json.dumps(facts), flush=True)


def load_seeds(rng: random.Random, limit: int) -> list[CheckpointMetadata]:
    """Operators of the real snapshots; ``limit`` snapshots, or all."""
    paths = snapshot_paths()
    rng.shuffle(paths)
    found = []
    for path in paths[: limit or len(paths)]:
        found += list(seeds_of(path))
    return found


def bound_memory() -> None:
    """From here on, an allocation that is too large fails."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def run_case(folder: Path, data: bytes, name: str) -> dict[str, Any]:
    """Read one damaged snapshot: what happened. The input of a problem stays in the folder, under its name."""
    (folder / "_metadata").write_bytes(data)
    result = _read(folder, len(data), random.Random(f"{name}-read"))
    if "problem" in result:
        (folder.parent / name).write_bytes(data)
    return result


def _read(folder: Path, size: int, rng: random.Random) -> dict[str, Any]:
    faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True)
    start = time.process_time()
    try:
        read, refused = read_everything(str(folder), size, rng)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"problem": f"{type(error).__name__}: {error}"[:300], "trace": traceback.format_exc()[-6000:]}
    finally:
        faulthandler.cancel_dump_traceback_later()
    return {"read": read, "refused": refused, "seconds": round(time.process_time() - start, 2)}


def main() -> None:
    """Cases from ``first`` on, until there are ``count``, or files that were kept of earlier runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--snapshots", type=int, default=0)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--replay", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    faulthandler.enable()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.replay:
        warm_up(args.folder, load_seeds(random.Random(0), 4))
        bound_memory()
        for path in args.replay:
            say(start=path.name)
            say(case=path.name, **run_case(args.folder, path.read_bytes(), path.name))
        return
    seeds = load_seeds(random.Random(args.seed), args.snapshots)
    warm_up(args.folder, seeds[:40])
    bound_memory()
    for number in range(args.first, args.first + args.count):
        name = f"{args.seed}-{number}"
        say(start=name)
        rng = random.Random(name)
        say(case=name, **run_case(args.folder, damaged(rng, rng.choice(seeds)), name))


def warm_up(folder: Path, seeds: list[CheckpointMetadata]) -> None:
    """Compile kernels, and see that sound snapshots read."""
    for seed in seeds:
        (folder / "_metadata").write_bytes(write_metadata(seed))
        read, _ = read_everything(str(folder), 1 << 20, random.Random(1))
        if not read:
            sys.exit("a sound snapshot does not read")


if __name__ == "__main__":
    main()
