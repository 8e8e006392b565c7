"""The process that reads damaged inputs of one target, bounded in memory by the system and in time by a watchdog.

An input is a problem where it raises anything but an error of this package, or takes more processor time or memory than
its bytes pay for. The input that is being read is always in a file, for the parent to find if this process dies. That
file is mapped into memory, and the watchdog is wound up once a second: most inputs take a tenth of a millisecond, and
a file and a thread for each of them took ten times that.
"""

from __future__ import annotations

import argparse
import faulthandler
import mmap
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
#: Bytes of an input that the parent finds; none of the targets makes larger ones.
LARGEST = 64 << 20


class Current:
    """The input that is being read: its length and its bytes in a file, and a watchdog that ends the process.

    The watchdog is wound up for the first input of each second: an input is ended after ``WATCHDOG_SECONDS`` or up to a
    second earlier.
    """

    def __init__(self, path: Path) -> None:
        with path.open("w+b") as file:
            file.truncate(8 + LARGEST)
            self._map = mmap.mmap(file.fileno(), 8 + LARGEST)
        self._wound_up = 0.0

    def put(self, data: bytes) -> None:
        """Keep an input before it is read."""
        self._map[:8] = len(data).to_bytes(8, "big")
        self._map[8 : 8 + len(data)] = data
        now = time.monotonic()
        if now - self._wound_up > 1:
            faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True)
            self._wound_up = now

    @staticmethod
    def of(path: Path) -> bytes:
        """Return the input in a file."""
        with path.open("rb") as file:
            return file.read(int.from_bytes(file.read(8), "big"))


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


def check(target: Target, data: bytes, name: str, current: Current, folder: Path) -> bool:
    """Read an input, and once more where it took long: a kernel that is compiled takes long once."""
    current.put(data)
    found, done = problem_of(target, data)
    if found is not None and found["problem"].startswith("Slow"):
        found, done = problem_of(target, data)
    if found is not None:
        (folder / name).write_bytes(data)
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
    current = Current(args.current)
    folder = args.current.parent
    inputs = 0
    read = 0
    for path in args.replay:
        say(started=inputs)
        read += check(target, path.read_bytes(), path.name, current, folder)
        inputs += 1
    for number in range(args.first, args.first + args.count):
        name = f"{args.target}-{args.seed}-{number}"
        data = target.make(random.Random(name))
        read += check(target, data, name, current, folder)
        inputs += 1
        if inputs % REPORT == 0:
            say(inputs=inputs, read=read)
    say(inputs=inputs, read=read, finished=True)


if __name__ == "__main__":
    main()
