"""Around user functions: rows and values, errors, output."""
