"""Kryo: the values of generic types."""
