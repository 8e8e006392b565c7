"""The process that reads damaged inputs of one target, bounded in memory by the system and in time by a watchdog.

An input is a problem where it raises anything but an error of this package, or takes more processor time or memory than
its bytes pay for. The input that is being read is always in a file, for the parent to find if this process dies.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import resource
import time
import traceback
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.errors import SavepointError
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.worker import WATCHDOG_SECONDS, bound_memory, say

#: Processor seconds that any input may take, and for each of its bytes.
SECONDS, SECONDS_PER_BYTE = 1.0, 50e-6
#: Bytes that the peak of the process may grow by with any input, and for each of its bytes.
MEMORY, MEMORY_PER_BYTE = 128 << 20, 1024
REPORT = 500


def peak() -> int:
    """Bytes of memory at the peak so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def problem_of(target: Target, data: bytes) -> tuple[dict[str, Any] | None, bool]:
    """Read an input: what was wrong, and whether it was read rather than refused."""
    before, done = peak(), True
    start = time.process_time()
    try:
        target.read(data)
    except SavepointError as error:
        done = False
        str(error)
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {error}"[:300], "trace": traceback.format_exc()[-6000:]}, False
    seconds = time.process_time() - start
    if seconds > SECONDS + SECONDS_PER_BYTE * len(data):
        return {"problem": f"Slow: {seconds:.1f} s for {len(data)} bytes"}, done
    grown = peak() - before
    if grown > MEMORY + MEMORY_PER_BYTE * len(data):
        return {"problem": f"Large: {grown >> 20} MB for {len(data)} bytes"}, done
    return None, done


def check(target: Target, data: bytes, name: str, current: Path) -> bool:
    """Read an input, and once more where it took long: a kernel that is compiled takes long once."""
    current.write_bytes(data)
    faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True)
    found, done = problem_of(target, data)
    if found is not None and found["problem"].startswith("Slow"):
        found, done = problem_of(target, data)
    faulthandler.cancel_dump_traceback_later()
    if found is not None:
        (current.parent / name).write_bytes(data)
        say(name=name, **found)
    return done


def main() -> None:
    """Inputs from ``first`` on, or files that were kept of earlier runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", choices=TARGETS, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--current", type=Path, required=True)
    parser.add_argument("--replay", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    faulthandler.enable()
    target = TARGETS[args.target]
    rng = random.Random(f"{args.target}-{args.seed}")
    for _ in range(20):
        problem_of(target, target.make(rng))
    bound_memory()
    inputs = 0
    read = 0
    for path in args.replay:
        say(started=inputs)
        read += check(target, path.read_bytes(), path.name, args.current)
        inputs += 1
    for number in range(args.first, args.first + args.count):
        name = f"{args.target}-{args.seed}-{number}"
        data = target.make(random.Random(name))
        read += check(target, data, name, args.current)
        inputs += 1
        if inputs % REPORT == 0:
            say(inputs=inputs, read=read)
    say(inputs=inputs, read=read, finished=True)


if __name__ == "__main__":
    main()
