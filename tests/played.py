"""A recorded history of checkpoints, played into a folder one by one, as a running job takes and deletes them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Played:
    """The checkpoints of a recorded history that a folder has so far.

    Args:
        recorded: The folder of the recorded checkpoints, with a folder for each job.
        folder: Where they are played.
        retained: How many are kept.

    """

    recorded: Path
    folder: Path
    retained: int = 1000
    taken: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the folders of the jobs."""
        for job in self.recorded.iterdir():
            (self.folder / job.name).mkdir(parents=True)
            if (job / "taskowned").is_dir():
                shutil.copytree(job / "taskowned", self.folder / job.name / "taskowned")
        self.waiting = sorted(self.recorded.glob("*/chk-*"), key=number)

    def take(self, count: int = 1) -> int:
        """Complete the next checkpoints, delete those that are not retained; return the number of the newest."""
        for source in [self.waiting.pop(0) for _ in range(count)]:
            job = self.folder / source.parent.name
            for name in shared_files(source):
                if not (job / "shared" / name).exists():
                    (job / "shared").mkdir(exist_ok=True)
                    shutil.copy2(source.parent / "shared" / name, job / "shared" / name)
            # The file _metadata is there when all others are.
            being_taken = self.folder / f"{source.name}.inprogress"
            shutil.copytree(source, being_taken)
            # Recorded times are the same for all checkpoints.
            seconds = 1_764_072_000 + 60 * number(source)
            os.utime(being_taken / "_metadata", (seconds, seconds))
            target = job / source.name
            target.mkdir()
            for file in sorted(being_taken.iterdir(), key=lambda file: file.name == "_metadata"):
                file.rename(target / file.name)
            being_taken.rmdir()
            self.taken.append(number(source))
            self.delete(self.taken[: -self.retained])
        return self.taken[-1]

    def delete(self, numbers: list[int]) -> None:
        """Delete checkpoints, and the shared files that no other has."""
        for each in numbers:
            self.taken.remove(each)
            for gone in self.folder.glob(f"*/chk-{each}"):
                (gone / "_metadata").unlink()
                shutil.rmtree(gone)
        used = {name for kept in self.folder.glob("*/chk-*") for name in shared_files(kept)}
        for file in self.folder.glob("*/shared/*"):
            if file.name not in used:
                file.unlink()


def number(checkpoint: Path) -> int:
    """The number of a checkpoint."""
    return int(checkpoint.name.removeprefix("chk-"))


def shared_files(checkpoint: Path) -> set[str]:
    """The names of the shared files that a checkpoint refers to."""
    metadata = (checkpoint / "_metadata").read_bytes()
    return {file.name for file in (checkpoint.parent / "shared").glob("*") if file.name.encode() in metadata}
