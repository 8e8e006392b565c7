"""Files that are written through pyarrow: to object stores and HDFS."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from pyarrow import fs as arrow_fs

from pyspark_savepoint.formats.errors import OutputError
from pyspark_savepoint.formats.io.outputs import already_there
from pyspark_savepoint.formats.io.remote_errors import storage_error


def refuse(error: OSError, path: str) -> NoReturn:
    """Raise what a user can act on."""
    meaning = storage_error(error, path)
    raise OutputError(
        "a file of the savepoint cannot be written",
        path=path,
        found=f"{meaning.message}: {meaning.facts.get('found', error)}",
        remedy=meaning.facts.get("remedy"),
    ) from None


@contextlib.contextmanager
def refusing(path: str) -> Iterator[None]:
    """Errors of the file system as errors of ours."""
    try:
        yield
    except OSError as error:
        refuse(error, path)


class ArrowOutputFile:
    """A new file that pyarrow opened; object stores show it when it is closed."""

    def __init__(self, filesystem: arrow_fs.FileSystem, located: str, path: str) -> None:
        self.path = path
        self.size = 0
        self._filesystem, self._located = filesystem, located
        try:
            self._file: Any = filesystem.open_output_stream(located)
        except OSError as error:
            refuse(error, path)

    def write(self, buffer: Any) -> None:
        """All bytes of a buffer."""
        data = memoryview(buffer).cast("B")
        try:
            self._file.write(data)
        except OSError as error:
            refuse(error, self.path)
        self.size += len(data)

    def close(self) -> None:
        file, self._file = self._file, None
        try:
            file.close()
        except OSError as error:
            refuse(error, self.path)

    def abort(self) -> None:
        """Close and delete: an upload cannot be called off."""
        if self._file is not None:
            file, self._file = self._file, None
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.delete_file(self._located)


class ArrowOutputs:
    """What a file system of pyarrow does to write. In object stores nobody can compare and replace: the last wins."""

    __slots__ = ()

    def connected(self) -> tuple[arrow_fs.FileSystem, str]:
        """The live file system, and what its paths begin with."""
        raise NotImplementedError

    def uri(self, path: str) -> str:
        """The path as a user would write it."""
        raise NotImplementedError

    @property
    def renames(self) -> bool:
        """Whether :meth:`move` costs nothing: object stores copy."""
        return isinstance(self.connected()[0], arrow_fs.HadoopFileSystem)

    def open_output(self, path: str, *, durable: bool = True) -> ArrowOutputFile:
        filesystem, prefix = self.connected()
        return ArrowOutputFile(filesystem, prefix + path, self.uri(path))

    def create_directory(self, path: str) -> None:
        """The folder, where the file system has folders."""
        filesystem, prefix = self.connected()
        with refusing(self.uri(path)):
            filesystem.create_dir(prefix + path, recursive=True)

    def delete_file(self, path: str) -> None:
        """The file, where it is there."""
        filesystem, prefix = self.connected()
        with refusing(self.uri(path)), contextlib.suppress(FileNotFoundError):
            filesystem.delete_file(prefix + path)

    def delete_directory(self, path: str) -> None:
        """The folder and all in it, where it is there."""
        filesystem, prefix = self.connected()
        with refusing(self.uri(path)), contextlib.suppress(FileNotFoundError):
            filesystem.delete_dir(prefix + path)

    def delete_empty_directory(self, path: str) -> None:
        """The folder, where it is there and empty."""
        filesystem, prefix = self.connected()
        with contextlib.suppress(OSError):
            if not filesystem.get_file_info(arrow_fs.FileSelector(prefix + path)):
                filesystem.delete_dir(prefix + path)

    def move(self, source: str, target: str) -> None:
        """Give a file another name."""
        filesystem, prefix = self.connected()
        with refusing(self.uri(source)):
            filesystem.move(prefix + source, prefix + target)

    def publish(self, path: str, data: bytes, *, replace: bool) -> None:
        """A file that appears whole; ConcurrentWriteError if it is there and may not be replaced."""
        filesystem, prefix = self.connected()
        located = prefix + path
        with refusing(self.uri(path)):
            found = arrow_fs.FileType.NotFound if replace else filesystem.get_file_info(located).type
        if found != arrow_fs.FileType.NotFound:
            raise already_there(self.uri(path))
        file = ArrowOutputFile(filesystem, located, self.uri(path))
        file.write(data)
        file.close()

    @contextlib.contextmanager
    def lock(self, directory: str) -> Iterator[None]:
        """There is nothing to hold."""
        yield
