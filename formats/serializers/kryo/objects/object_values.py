"""Values of objects, for columns of the user's classes: what :class:`ValueReader` reads where no objects are needed.

Objects and maps with text keys are objects of VARIANT, collections arrays. Objects of the user's classes have their
fields by name; if two fields have the same name, that of the superclass is called ``Base.name``.
"""

from __future__ import annotations

from typing import Any

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_objects import KryoObject
from pyspark_savepoint.formats.serializers.kryo.kryo_input import BeyondError
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import RAW, ObjectFormat, Rendering


class ObjectValues:
    """Values of the objects of one batch; ``room`` limits the size of shared objects, which are repeated."""

    def __init__(self, form: ObjectFormat, options: DecodeOptions, room: int) -> None:
        self.form = form
        self.options = options
        self.room = room
        self._open: set[KryoObject] = set()
        self._variant, self._typed = (Rendering(form, options, typed) for typed in (False, True))
        self.constant = self._variant.constant

    def spend(self, size: int) -> None:
        """Subtract a size from the room that is left."""
        self.room -= size
        if self.room < 0:
            raise BeyondError("values that repeat shared objects are too large for a column", RAW)

    def variant(self, found: KryoObject | None) -> Any:
        """Return the value of an object for VARIANT."""
        return self._value(found, self._variant)

    def typed(self, found: KryoObject | None) -> Any:
        """Return the value of an object of a JDK class for a column of its own type."""
        return self._value(found, self._typed)

    def _value(self, found: KryoObject | None, rendering: Rendering) -> Any:
        if found is None:
            return None
        self.spend(1)
        body, content = self.form.body(found.class_name), found.content
        if body.raw_of is not None:
            raw = body.raw_of(found)
        elif isinstance(content, list | dict):
            raw = self._inside(found, rendering)
        else:
            raw = content
        return raw if body.value is None else body.value(rendering, raw)

    def _inside(self, found: KryoObject, rendering: Rendering) -> Any:
        """Return the content of an object, with values in place of the objects in it."""
        if found in self._open:
            raise BeyondError(f"an object of {found.class_name} that contains itself cannot be in a column", RAW)
        self._open.add(found)
        content = found.content
        self.spend(len(content))
        raw: Any
        if isinstance(content, dict):
            raw = {key: self._part(each, rendering) for key, each in content.items()}
        else:
            raw = [self._part(each, rendering) for each in content]
        self._open.discard(found)
        return raw

    def _part(self, each: Any, rendering: Rendering) -> Any:
        if isinstance(each, KryoObject):
            return self._value(each, rendering)
        if isinstance(each, tuple):
            return self._value(each[0], rendering), self._value(each[1], rendering)
        return each
