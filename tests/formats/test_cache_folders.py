"""Machine code is loaded only from folders that nobody else can have written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_savepoint.formats.kernels.cache_folders import reason_against, reason_against_file
from pyspark_savepoint.formats.kernels.interpretation import VARIABLE
from pyspark_savepoint.formats.kernels.object_code import Compiled

#: A kernel, loaded or compiled: prints what it computes, and whether machine code was loaded.
CALL = """
import numpy as np
from pyspark_savepoint.formats.kernels import keys
groups = np.empty(2, np.int32)
keys.key_groups(np.array([1, 2], np.int32), 128, groups)
print(groups.tolist(), 1 - keys.key_groups.compiled_here)
"""


def call(cache: Path) -> tuple[str, str]:
    """Call the kernel in a process of its own; what it prints, and what it says about compiling."""
    environment = {**os.environ, VARIABLE: "compiled", "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.thorough  # kernels are compiled again
def test_code_of_another_user_is_not_run(tmp_path: Path) -> None:
    """In a cache of this user alone the file is loaded, and what it says is run: that shows what the others do not."""
    cache = tmp_path / "shared" / "cache"
    assert call(cache)[0] == "[86, 127] 0"
    assert call(cache)[0] == "[86, 127] 1"
    (file,) = cache.glob("keys.key_groups-*.code")
    data = file.read_bytes()
    found = Compiled.from_bytes(data)
    assert found is not None
    # Code of another kernel would write elsewhere; of the same one, that it returns a number shows that it was used.
    file.write_bytes(Compiled("?", found.code).to_bytes())
    assert call(cache)[0] == "[86, 127] 1"
    file.write_bytes(data)

    cache.parent.chmod(0o777)  # others may put another folder in its place
    assert call(cache)[0] == "[86, 127] 0"
    cache.parent.chmod(0o755)
    file.chmod(0o666)
    assert call(cache)[0] == "[86, 127] 0"
    file.chmod(0o644)
    cache.chmod(0o777)
    out, told = call(cache)
    assert out == "[86, 127] 0"
    assert f"others may write to {cache}" in told or "compiling" not in told
    cache.chmod(0o755)
    kept = cache.rename(tmp_path / "elsewhere")
    cache.symlink_to(kept)
    assert call(cache)[0] == "[86, 127] 0"


@pytest.mark.thorough  # kernels are compiled again
def test_a_damaged_file_is_compiled_anew(tmp_path: Path) -> None:
    assert call(tmp_path)[0] == "[86, 127] 0"
    (file,) = tmp_path.glob("keys.key_groups-*.code")
    data = file.read_bytes()
    for damaged in (b"", data[:40], data[:-1], data[:-9] + bytes(9)):
        file.write_bytes(damaged)
        assert call(tmp_path)[0] == "[86, 127] 0"
        assert file.read_bytes() == data


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
    assert reason_against_file(tmp_path / "link") == f"{tmp_path / 'link'} is not a file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_other_owners(tmp_path: Path) -> None:
    folder = tmp_path / "of" / "another"
    folder.mkdir(parents=True)
    os.chown(folder.parent, 4321, 4321)
    assert reason_against(folder) == f"{folder.parent} belongs to another user"
    os.chown(folder, 4321, 4321)
    assert reason_against(folder) == f"{folder} belongs to another user"
