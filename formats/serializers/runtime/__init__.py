"""Serializers of Flink's runtime, connectors and libraries."""
