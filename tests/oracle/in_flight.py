"""Unaligned checkpoints of real Flink with full buffers, packed: the fixtures in `savepoints/in-flight`.

python -m tests.oracle.in_flight 2.2.1 tests/oracle/savepoints/in-flight/2.2.1.tar.xz
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from tests.oracle import flink

CONFIGURATION = {
    **flink.BACKENDS["hashmap"],
    **flink.PATIENCE,
    # Before and after 1.19.
    "execution.checkpointing.unaligned": "true",
    "execution.checkpointing.unaligned.enabled": "true",
    # Small buffers, and few, so that records lie in several.
    "taskmanager.memory.segment-size": "4kb",
    "taskmanager.network.memory.buffers-per-channel": "1",
    "taskmanager.network.memory.floating-buffers-per-gate": "1",
}


def pack(version: str, archive: Path) -> None:
    """Run Flink to write the checkpoint of `oracle.InFlight`, and pack its files under their names."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        conf = [f"--conf={key}={value}" for key, value in CONFIGURATION.items()]
        flink.run(version, "oracle.InFlight", [f"--out={out}", "--parallelism=2", "--format=checkpoint", *conf])
        (metadata,) = out.rglob("_metadata")
        with tarfile.open(archive, "w:xz") as tar:
            for path in sorted(metadata.parent.iterdir()):
                tar.add(path, path.name)


if __name__ == "__main__":
    pack(sys.argv[1], Path(sys.argv[2]))
