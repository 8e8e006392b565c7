"""Keyed state files of every backend: planning, opening and reading."""
