"""Serializers of single values: numbers, strings, times, arrays, enums."""
