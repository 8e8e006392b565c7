"""Damaged snapshots: real ones, changed at random, must read as sound rows or fail with a SavepointError."""
