"""Whole snapshots: finding, opening, relocating and publishing them."""
