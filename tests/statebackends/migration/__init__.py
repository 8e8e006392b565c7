"""Tests of migrations from Flink 1 to 2."""
