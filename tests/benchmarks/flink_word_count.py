"""Real Flink counts the words of the benchmark, where it can be had: as a job with a state backend of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.oracle import flink
from tests.short_lived_jvm import OPTIONS

#: The release that is compared with; ``tests/oracle/flink.py`` downloads it once.
VERSION = "2.2.1"
#: What the harness of the tests sets to start quickly, and would make a long job slow.
PATIENCE = 540


def seconds(folder: Path, records: int, backend: str) -> float:
    """Return how long Flink takes from submitting the job to the end of its savepoint.

    Raises:
        FlinkError: If Flink cannot be downloaded, or has failed.

    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    arguments = [f"--records={records}", f"--out={folder}", f"--staging={folder / 'tmp'}", "--parallelism=2"]
    arguments += ["--format=canonical", "--conf=taskmanager.memory.managed.size=512m"]
    settings = {**flink.BACKENDS[backend], **flink.PATIENCE}
    arguments += [f"--conf={name}={value}" for name, value in settings.items()]
    command = flink.command_line(flink_version := VERSION, "oracle.WordCount", arguments, heap="2g")
    command = [command[0], f"-Doracle.seconds={PATIENCE}", *(each for each in command[1:] if each not in OPTIONS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise flink.FlinkError(f"WordCount on Flink {flink_version}: {done.stderr[-500:]}")
    found = float(json.loads((folder / "found.json").read_text("utf-8"))["seconds"])
    shutil.rmtree(folder)
    return found
