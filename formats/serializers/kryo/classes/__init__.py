"""Objects and classes as Kryo writes them, without their bytes."""
