"""Operator state: streams of list, union and broadcast state."""
