"""Machine code is loaded only from folders that nobody else can have written: numba's index is a pickle."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_savepoint.formats.kernels.cache_folders import reason_against, reason_against_file
from pyspark_savepoint.formats.kernels.interpretation import VARIABLE

#: A kernel, loaded or compiled: prints what it computes, and whether machine code was loaded.
CALL = """
import numpy as np
from pyspark_savepoint.formats.kernels import keys
groups = np.empty(2, np.int32)
keys.key_groups(np.array([1, 2], np.int32), 128, groups)
print(groups.tolist(), sum(keys.key_groups.stats.cache_hits.values()))
"""


class _Harm:
    """An object whose pickle makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.marker),)


def call(cache: Path) -> tuple[str, str]:
    """Call the kernel in a process of its own; what it prints, and what it says about compiling."""
    environment = {**os.environ, VARIABLE: "compiled", "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout.strip(), done.stderr


def test_code_of_another_user_is_not_run(tmp_path: Path) -> None:
    """In a cache of this user alone the index is loaded, and what it runs too: that shows what the others do not."""
    cache, marker = tmp_path / "shared" / "cache", tmp_path / "harm"
    assert call(cache)[0] == "[86, 127] 0"
    assert call(cache)[0] == "[86, 127] 1"
    (index,) = cache.rglob("keys.key_groups-*.nbi")
    index.write_bytes(pickle.dumps(_Harm(marker)))

    cache.parent.chmod(0o777)  # others may put another folder in its place
    assert call(cache)[0] == "[86, 127] 0"
    cache.parent.chmod(0o755)
    index.chmod(0o666)
    assert call(cache)[0] == "[86, 127] 0"
    index.chmod(0o644)
    index.parent.chmod(0o777)
    out, told = call(cache)
    assert out == "[86, 127] 0"
    assert f"others may write to {index.parent}" in told or "compiling" not in told
    index.parent.chmod(0o755)
    kept = index.parent.rename(tmp_path / "elsewhere")
    index.parent.symlink_to(kept)
    assert call(cache)[0] == "[86, 127] 0"
    assert not marker.exists()

    index.parent.unlink()
    kept.rename(index.parent)
    environment = {**os.environ, VARIABLE: "compiled", "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, timeout=300, check=False)
    assert marker.exists()


def test_folders(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True, mode=0o755)
    folder.chmod(0o755)
    assert reason_against(folder) is None
    assert reason_against(folder / "not" / "there") is None
    folder.chmod(0o757)
    assert reason_against(folder) == f"others may write to {folder}"
    assert reason_against(folder / "c") == f"others may write to {folder}"
    folder.chmod(0o1777)
    assert reason_against(folder) == f"others may write to {folder}"
    (folder / "c").mkdir(mode=0o755)
    assert reason_against(folder / "c") is None  # as in /tmp, only its owner may rename it
    folder.chmod(0o755)
    (tmp_path / "link").symlink_to(folder)
    assert reason_against(tmp_path / "link") == f"{tmp_path / 'link'} is a link"
    assert reason_against(tmp_path / "link" / "c") is None
    folder.parent.chmod(0o777)
    assert reason_against(tmp_path / "link" / "c") == f"others may write to {folder.parent}"


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "index"
    assert reason_against_file(file) is None
    file.write_bytes(b"")
    file.chmod(0o644)
    assert reason_against_file(file) is None
    file.chmod(0o646)
    assert reason_against_file(file) == f"others may write to {file}"
    (tmp_path / "link").symlink_to(file)
    assert reason_against_file(tmp_path / "link") == f"{tmp_path / 'link'} is no file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_other_owners(tmp_path: Path) -> None:
    folder = tmp_path / "of" / "another"
    folder.mkdir(parents=True)
    os.chown(folder.parent, 4321, 4321)
    assert reason_against(folder) == f"{folder.parent} belongs to another user"
    os.chown(folder, 4321, 4321)
    assert reason_against(folder) == f"{folder} belongs to another user"
