"""Objects and classes as Kryo writes them, and its numbers and texts; none of it needs the bytes of an object."""
