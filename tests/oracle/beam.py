"""Has real Flink write state by real coders of Apache Beam: a savepoint with Beam's serializers and timers.

Beam's runner for Flink is not on PyPI, but PyFlink's jar has Beam's coders, windows, namespaces and data of timers. The
two classes of the runner that Flink calls are in `java/beam`, with the names, fields and bytes of Beam's.

    python -m tests.oracle.beam 2.3.0 OUT
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.oracle.flink import (
    BACKENDS,
    JAVA,
    OPENED_PACKAGES,
    PATIENCE,
    FlinkError,
    class_path,
    compile_harness,
    fetch,
    fetch_files,
    jdk_tool,
    why_it_failed,
)


def generate(version: str, folder: Path) -> None:
    """Write `folder/savepoint`, and what must be in it as `folder/found.json`."""
    jars = fetch_files(f"apache-flink-libraries=={version}", re.compile(r"/opt/flink-python-[^/]*\.jar$"))
    with tempfile.TemporaryDirectory() as name:
        entries = [Path(name), compile_harness(version), *jars, *fetch(version)]
        sources = sorted(map(str, (JAVA / "beam").rglob("*.java")))
        options = ["-nowarn", "-Xlint:none", "-proc:none", "--release", "17", "-d", name]
        _run([jdk_tool("javac"), *options, "-cp", class_path(entries), *sources])
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
        configuration = {**BACKENDS["hashmap"], **PATIENCE}
        arguments = [f"--out={folder.resolve()}", "--format=canonical", "--parallelism=2"]
        arguments += [f"--staging={folder.resolve() / 'tmp'}"]
        arguments += [f"--conf={key}={value}" for key, value in configuration.items()]
        _run([jdk_tool("java"), *opened, "-Xmx1g", "-cp", class_path(entries), "oracle.Beam", *arguments])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=False)
    if done.returncode:
        raise FlinkError(f"{command[0]} ended with {done.returncode}:\n    {why_it_failed(done.stderr + done.stdout)}")


if __name__ == "__main__":
    generate(sys.argv[1], Path(sys.argv[2]))
