"""Scripts that run in separate processes, like those of users."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def run_script(script: str, *arguments: str) -> tuple[Any, str]:
    """Return what a script prints last, as JSON, and what it and all its processes print on stderr."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    # This process may have a JVM of its own, which the script's Spark must not take for its own.
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"):
        environment.pop(name, None)
    if "connect" in arguments:
        # Spark's own word for a server on any free port: by default it is the same for all.
        environment["SPARK_TESTING"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True, timeout=900
    )
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("\tat ", "Caused by"))]
    assert done.returncode == 0, "\n".join(lines)[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr
