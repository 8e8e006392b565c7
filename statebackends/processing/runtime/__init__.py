"""Runtime of user functions: rows and values, errors, output."""
