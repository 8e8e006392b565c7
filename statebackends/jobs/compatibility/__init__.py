"""Flink's rules of compatible serializers and versions."""
