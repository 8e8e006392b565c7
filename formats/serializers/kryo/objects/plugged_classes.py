"""Plug-ins for classes that a job writes with its own Kryo serializer, from packages of users.

A package declares them in the entry point group ``pyspark_savepoint.kryo_classes``: the name of an entry is the class,
its value a :class:`KryoClass`. Exceptions in them become errors that name them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar

import pyarrow as pa

from pyspark_savepoint.formats.plug_ins import KRYO_CLASSES, PlugIn, plugged_in
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import KryoObject
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import ObjectReader, ObjectWriter
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Body


class KryoClass(ABC):
    """Reader and writer of the bytes that a job's own Kryo serializer writes for a class.

    Example::

        class Money(KryoClass):  # what its serializer wrote: writeLong(cents), writeString(currency)
            arrow_type = pa.struct([("cents", pa.int64()), ("currency", pa.string())])

            @classmethod
            def read(cls, reader):
                return {"cents": reader.fixed("q"), "currency": reader.text()}

            @classmethod
            def write(cls, writer, value):
                writer.fixed("q", value["cents"])
                writer.text(value["currency"])

    """

    #: The type of the column.
    arrow_type: ClassVar[pa.DataType]
    #: Whether the plug-in declares :meth:`write`.
    writes: ClassVar[bool] = False

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.writes = cls.writes or "write" in cls.__dict__

    @classmethod
    @abstractmethod
    def read(cls, reader: ObjectReader) -> Any:
        """Read the bytes of an object, with the methods of the reader that correspond to those of Kryo's ``Input``.

        Args:
            reader: The bytes: ``signed()`` is ``readInt(false)``, ``text()`` ``readString()``, ``fixed("q")``
                ``readLong()``, ``value()`` ``readClassAndObject()``.

        Returns:
            A value that Arrow accepts for ``arrow_type``.

        """

    @classmethod
    def write(cls, writer: ObjectWriter, value: Any) -> None:
        """Write a value that :meth:`read` returned; without this method, values can only be read.

        Args:
            writer: The output, with methods named like those of the reader.
            value: The value.

        """
        raise ForeignError(cls.__name__, "its plug-in has no method 'write'")


@cache
def plugged_classes() -> dict[str, type[KryoClass]]:
    """Return the plug-ins by class; a failure to import one is an error that names it."""
    plug_ins = {}
    for entry in plugged_in(KRYO_CLASSES):
        with PlugIn(f"entry point {entry.name!r} = {entry.value!r}", "its import"):
            known = entry.load()
            if not (isinstance(known, type) and issubclass(known, KryoClass)):
                raise TypeError(f"{known!r:.200} is not a KryoClass")
        plug_ins[entry.name] = known
    return plug_ins


def plugged_bodies() -> dict[str, Body]:
    """Return the bodies of the classes that have plug-ins."""
    return {name: _body(name, known) for name, known in plugged_classes().items()}


def _body(name: str, known: type[KryoClass]) -> Body:
    def read(reader: ObjectReader, kryo_object: KryoObject) -> None:
        kryo_object.content = _guarded(
            f"{known.__module__}.{known.__qualname__}", name, "read", lambda: known.read(reader)
        )

    def write(writer: ObjectWriter, kryo_object: KryoObject) -> None:
        plug_in = f"{known.__module__}.{known.__qualname__}"
        _guarded(plug_in, name, "write", lambda: known.write(writer, kryo_object.content))

    return Body(read, write)


def _guarded(plug_in: str, name: str, doing: str, call: Any) -> Any:
    """Call a plug-in; errors about the bytes are raised unchanged."""
    problem: DamagedError | ForeignError | None = None
    result = None
    with PlugIn(plug_in, f"{doing} of {name}"):
        try:
            result = call()
        except (DamagedError, ForeignError) as error:
            problem = error
    if problem is not None:
        raise problem
    return result
