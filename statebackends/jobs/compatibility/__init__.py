"""Flink's rules for compatible serializers and versions."""
