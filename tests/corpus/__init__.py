"""Tests over files that real Flink wrote, and what they must yield."""
