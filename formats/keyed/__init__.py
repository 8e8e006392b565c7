"""Streams of state: keyed state in the canonical format, of the heap and of changelogs; operator state."""
