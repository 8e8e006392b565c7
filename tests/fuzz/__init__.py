"""Damaged inputs of every format: real ones, changed at random, are read as sound values or refused."""
