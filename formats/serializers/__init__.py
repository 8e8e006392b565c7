"""Codecs of Flink's serializers: snapshots and values, read and written, one class per serializer."""
