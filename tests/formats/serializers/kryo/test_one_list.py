"""Every class that Kryo's reader of columns reads is read as objects too, as the type of a state and in an Object."""

from __future__ import annotations

import pytest

from pyspark_savepoint.formats.serializers.kryo.described.serializer import KINDS, KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.kryo_types import ARRAYS, DIALECTS
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import is_read
from tests.formats.serializers.codec_checks import decode

#: Values in both versions of Kryo: the class by its name, a new object, and the body.
BODIES = {
    "java.util.regex.Pattern": {2: b"a\xab", 5: b"a\xab\0"},
    "java.util.Properties": {2: b"\1\3\1k\xf6\3\1v\xf7", 5: b"\2\3\1k\xf6\3\1v\xf7"},
    "java.io.File": dict.fromkeys((2, 5), b"\1/da\xf4"),
    "java.util.concurrent.atomic.LongAdder": dict.fromkeys((2, 5), b""),
    "java.util.concurrent.atomic.AtomicLongArray": dict.fromkeys((2, 5), b"\1\3\2\3"),
    "sun.util.calendar.ZoneInfo": dict.fromkeys((2, 5), b"Europe/Pari\xf3"),
}
#: Classes whose values have columns of their own, where the state is declared as them.
TEXTS = {"java.util.regex.Pattern": "a+", "java.io.File": "/dat"}
#: The values as variants.
WANTED = ("0961 2b", "0201000003097677", "112f646174", "020000", "03020002040c010cfe", "314575726f70652f5061726973")


@pytest.mark.parametrize("version", [2, 5])
def test_the_readers_know_the_same_classes(version: int) -> None:
    assert [name for name in DIALECTS[version].readers if not is_read(name, version)] == []  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [2, 5])
def test_classes_with_columns_are_read_as_columns(version: int) -> None:
    assert [name for name in KINDS if name not in {**DIALECTS[version].readers, **ARRAYS}] == []


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize(("name", "wanted"), zip(BODIES, WANTED, strict=True))
def test_classes_are_read_in_both_positions(version: int, name: str, wanted: str) -> None:
    data = b"\1\0" + name[:-1].encode() + bytes([ord(name[-1]) | 0x80]) + b"\1" + BODIES[name][version]
    for declared in (name, "java.lang.Object"):
        serializer = KryoSerializer.of(declared)
        assert not serializer.opaque_parts()
        column = decode(serializer, data, kryo=version)
        if declared in TEXTS:
            assert column.to_pylist() == [TEXTS[name]]
            continue
        assert column.field("value").to_pylist() == [bytes.fromhex(wanted)]
