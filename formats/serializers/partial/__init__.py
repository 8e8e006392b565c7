"""Values that are decoded except for one part."""
