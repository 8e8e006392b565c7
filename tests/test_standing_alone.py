"""The project stands alone: no file names a folder beside the repository, and no path goes above its root."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Folders in which people keep checkouts: what lies in one is on one machine only.
HOMES = ("root", "work", "workspace", "Users")
OF_A_MACHINE = re.compile(rf"/(?:{'|'.join(HOMES)})/[\w.]")
#: Pages and settings, in which each path that goes up is one from their own folder.
PAGES = {".md", ".toml", ".yml", ".yaml", ".cfg"}
UPWARDS = re.compile(r"(?<![\w./])(?:\.\./)+[\w./-]*")
#: Steps up from the file itself, as many as are counted, and from what is called the root.
PARENTS = re.compile(r"Path\(__file__\)(?:\.resolve\(\))?(?:\.parents\[(\d+)\]|((?:\.parent\b)+))((?:\.parent\b)*)")
ABOVE = re.compile(r"\bROOT\s*(?:/\s*\"\.\.|\.parent\b)")


def repository_files() -> list[Path]:
    """The files of the repository, or of its archive."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git repository, so that it is not known which files are the project's")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def texts() -> dict[Path, str]:
    """The files that are text, without this one."""
    found = {}
    for path in repository_files():
        data = path.read_bytes()
        if b"\0" not in data and path != Path(__file__):
            found[path.relative_to(ROOT)] = data.decode("utf-8", "replace")
    return found


def above_the_root(path: Path, text: str) -> list[str]:
    """What in a file goes further up than to the root of the repository."""
    depth = len(path.parts)  # parents[depth - 1] is the root
    if path.suffix != ".py":
        return [up for up in UPWARDS.findall(text) if up.count("../") >= depth]
    found = [match.group() for match in ABOVE.finditer(text)]
    for match in PARENTS.finditer(text):
        number, first, more = match.groups()
        steps = (int(number) + 1 if number else first.count(".parent")) + more.count(".parent")
        if steps > depth:
            found.append(match.group())
    return found


def test_no_file_names_a_folder_of_one_machine() -> None:
    named = {str(path): OF_A_MACHINE.findall(text) for path, text in texts().items() if OF_A_MACHINE.search(text)}
    assert named == {}


def test_no_path_goes_above_the_root() -> None:
    found = {str(path): above_the_root(path, text) for path, text in texts().items() if path.suffix in {".py", *PAGES}}
    assert {path: steps for path, steps in found.items() if steps} == {}


@pytest.mark.parametrize(
    ("path", "text", "goes_above"),
    [
        ("tests/conftest.py", "Path(__file__).parents[1]", False),
        ("tests/conftest.py", "Path(__file__).parents[2] / 'x'", True),
        ("tests/conftest.py", "Path(__file__).resolve().parent.parent.parent", True),
        ("tests/fuzz/seeds.py", "Path(__file__).parents[2].parent", True),
        ("tests/fuzz/seeds.py", "Path(__file__).parents[2]", False),
        ("tests/fuzz/seeds.py", "ROOT.parent / 'data'", True),
        ("tests/fuzz/README.md", "[tests](../README.md), [all](../../README.md)", False),
        ("tests/fuzz/README.md", "made from ../../../data", True),
        ("README.md", "../data", True),
    ],
)
def test_steps_are_counted(path: str, text: str, goes_above: bool) -> None:
    assert bool(above_the_root(Path(path), text)) == goes_above
