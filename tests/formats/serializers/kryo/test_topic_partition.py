"""Partitions of Kafka's client, whose hash is 0 until it is asked for; bytes made by hand after its source code."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from tests.formats.serializers.codec_checks import encode
from tests.formats.serializers.kryo.test_one_list import decode

FIELDS = pa.struct({"hash": pa.int32(), "partition": pa.int32(), "topic": pa.string()})


@pytest.mark.parametrize("version", [2, 5])
def test_values(version: int) -> None:
    partitions = KryoSerializer.of("org.apache.kafka.common.TopicPartition")
    value = bytes.fromhex("5701000601") + b"order" + bytes([ord("s") | 0x80])
    column = decode(partitions, value, version)
    assert column == pa.array([{"hash": 0, "partition": 3, "topic": "orders"}], FIELDS)
    assert encode(JobClasses(kryo=version).described(partitions), column) == [value]
