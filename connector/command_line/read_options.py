"""Options of reads that commands pass on: ``--option``, ``--storage-option``, ``--allow-outside``, ``--checksums``."""

from __future__ import annotations

from typing import Any

from pyspark_savepoint.command_line.declarations import Arguments
from pyspark_savepoint.command_line.parsing import UsageError

#: Options that commands set from their arguments.
OWN_OPTIONS = frozenset({"path", "uid", "uidhash", "operatorname"})


def read_options(arguments: Arguments, *own: str) -> dict[str, Any]:
    """Return the options of the data source for reads that the arguments give, except ``own``: other arguments do."""
    own_names = OWN_OPTIONS.union(_folded(name) for name in own)
    if hasattr(arguments, "checksums"):
        own_names |= {"checksums"}
    texts = getattr(arguments, "option", ())
    file = "; --file names the file" if hasattr(arguments, "file") else ""
    options: dict[str, Any] = dict(_pair(text, "--option", f"flatten=true{file}") for text in texts)
    for name in options:
        if _folded(name) in own_names:
            raise UsageError(
                f"--option does not take {name}: an argument of the command says it", remedy="leave it out"
            )
    stores = dict(
        _pair(text, "--storage-option", "region=eu-west-1") for text in getattr(arguments, "storage_option", ())
    )
    if stores:
        options["storageOptions"] = stores
    if getattr(arguments, "allow_outside", False):
        options["allowOutside"] = True
    if (checksums := getattr(arguments, "checksums", None)) is not None:
        options["checksums"] = checksums
    return options


def _folded(name: str) -> str:
    return name.replace("_", "").casefold()


def _pair(text: str, of: str, example: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise UsageError(f"{of} takes NAME=VALUE", found=repr(text), remedy=f"such as {example}")
    return name, value
