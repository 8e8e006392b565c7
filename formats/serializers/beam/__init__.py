"""Serializers of Apache Beam's Flink runner."""
