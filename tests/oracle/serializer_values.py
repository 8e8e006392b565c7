"""Serializer snapshots and values that releases of Flink write, packed: the data set `serializers` of `tests/data`.

    python -m tests.oracle.serializer_values                  # all releases, and the archive
    python -m tests.oracle.serializer_values --out FOLDER 1.20.5

`oracle.WriteSerializers` writes, of each serializer that a release has, its snapshot and values with what is to be
shown of them. The releases are those at which a snapshot changed its form, or a serializer came or went: 1.10 (the
first that PyPI has; with Scala's and Gelly's), 1.13, 1.15, 1.17, 1.20 and 2.3.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from tests.data import pack
from tests.oracle import flink

RELEASES = ("1.10.3", "1.13.6", "1.15.4", "1.17.2", "1.20.5", "2.3.0")


def write(version: str, out: Path) -> list[str]:
    """Have a release write the folders `NAME-VERSION`; return the names of serializers that it does not have."""
    scratch = out / "scratch"
    missing = flink.run(version, "oracle.WriteSerializers", [str(scratch)], sql=True).split()
    for folder in scratch.iterdir():
        shutil.move(folder, out / f"{folder.name}-{'.'.join(version.split('.')[:2])}")
    scratch.rmdir()
    return missing


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.serializer_values")
    parser.add_argument("versions", nargs="*", default=RELEASES)
    parser.add_argument("--out", type=Path, help="keep the files here, and make no archive")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = told.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        for version in told.versions:
            print(version, "has no", *write(version, out), flush=True)
        if told.out is None:
            print(pack("serializers", out))


if __name__ == "__main__":
    main()
