"""Erasure of keys from all state of a snapshot, what was not looked into, and the proof of it."""
