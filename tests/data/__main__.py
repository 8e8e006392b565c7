"""Packs and unpacks the data sets.

python -m tests.data                  # unpacks them where tests find them, and prints the folder
python -m tests.data unpack FOLDER    # unpacks them into a folder
python -m tests.data pack lab FOLDER  # makes the archive `lab` of the files of a folder
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.data import pack, unpack, unpacked


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.data", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("unpack").add_argument("folder", type=Path)
    packing = commands.add_parser("pack")
    packing.add_argument("name")
    packing.add_argument("folder", type=Path)
    told = parser.parse_args()
    if told.command == "pack":
        archive = pack(told.name, told.folder)
        print(f"{archive}: {archive.stat().st_size:,} bytes")
    elif told.command == "unpack":
        unpack(told.folder)
    else:
        print(unpacked())


if __name__ == "__main__":
    main()
