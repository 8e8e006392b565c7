"""Print all texts of stores' errors and of objects that are passed between processes, for a test that plants secrets.

python -m tests.remote.secrets_told PORT FAULT...    each store at that port, which answers by the name of the bucket
"""

from __future__ import annotations

import logging
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.io.snapshot_files import SnapshotFileSystem
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots

FAULTS = ("denied", "missing", "busy", "cut", "nobody")
PATHS = ("s3://{}/sp", "gs://{}/sp", "abfss://{}@account.dfs.core.windows.net/sp")
#: What a path may hold that somebody pasted into it.
PASTED = (
    "s3://KEYmArKeR:mArKeR/secret@bucket/sp",
    "s3://bucket/sp?aws_secret_access_key=mArKeR&sig=mArKeR",
    "https://account.blob.core.windows.net/c/sp?sv=1&sig=mArKeR%2B",
    "abfss://container:mArKeR@account.dfs.core.windows.net/sp",
    "wasbs://c@account.blob.core.windows.net/sp?sig=mArKeR",
)

OPTIONS = ('{"secret": "mArKeR"}', '{"endpoint": "http://u:mArKeR@host"}', '{"roleArn": "sig=mArKeR"}', "sig=mArKeR")


def told(what: str, action: Callable[..., Any], *arguments: Any) -> None:
    """Print all texts of an error or a result."""
    try:
        print(what, "gave", type(action(*arguments)).__name__)
    except SavepointError as error:
        print(what, "raised", type(error).__name__)
        cause: BaseException | None = error
        while cause is not None:
            print(str(cause), repr(cause), cause.args, vars(cause))
            cause = cause.__context__
        print("".join(traceback.format_exception(error)))
        print(pickle.dumps(error), str(pickle.loads(pickle.dumps(error))))
        logging.getLogger("told").exception("logged")
        warnings.warn(str(error), stacklevel=2)


def ask(fault: str, path: str) -> None:
    """Run the operations of a store, and print all texts of results and errors."""
    what = f"{path.partition(':')[0]} {fault}"
    filesystem, directory = locate(path)
    staging = Staging.at(path)
    print(repr(filesystem), pickle.dumps(filesystem), repr(staging), pickle.dumps(staging), pickle.dumps(path))
    told(f"{what} open", Snapshot.open, path)
    if path.startswith("abfss") and fault not in ("denied", "missing"):
        return  # its client takes seconds for each
    told(f"{what} list", find_snapshots, path)
    told(f"{what} read", read, filesystem, directory)
    told(f"{what} write", write, filesystem, directory)
    told(f"{what} delete", filesystem.delete_directory, directory)


def read(filesystem: SnapshotFileSystem, path: str) -> None:
    filesystem.open_input(path).read_into(0, bytearray(9))


def write(filesystem: SnapshotFileSystem, directory: str) -> None:
    file = filesystem.open_output(directory + "/x")
    file.write(b"data")
    file.close()


def main(port: int, faults: list[str]) -> None:
    """Run the operations of every store."""
    logging.basicConfig(level=logging.DEBUG)
    for fault in faults:
        endpoint = f"http://127.0.0.1:{9 if fault == 'nobody' else port}"
        options = StorageOptions(
            endpoint=endpoint, connect_timeout=1, request_timeout=1, max_attempts=1, retry_limit=1, region="us-east-1"
        )
        for form in PATHS:
            ask(fault, StoragePath.of(form.format(fault), options))
    for path in PASTED:
        told("pasted", Snapshot.open, path)
        told("pasted", Staging.at, path)
    for text in OPTIONS:
        told("options", StorageOptions.parse, text)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
