"""Payloads of connectors: their frames, kinds, and descriptions of their bytes."""
