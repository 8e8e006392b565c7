"""A snapshot as a whole: found, opened, moved, published."""
