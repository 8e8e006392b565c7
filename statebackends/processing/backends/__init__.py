"""State backends that hold state while functions run."""
