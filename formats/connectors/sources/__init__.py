"""State of sources: splits of readers, and enumerators."""
