"""Tests of files that real Flink wrote, and their expected content."""
