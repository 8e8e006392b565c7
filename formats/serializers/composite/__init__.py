"""Serializers of values with parts: tuples, rows, POJOs, collections."""
