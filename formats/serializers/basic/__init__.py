"""Serializers of single values: numbers, texts, times, arrays, enums."""
