"""Values of which a part is not decoded."""
