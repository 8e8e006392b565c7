"""Writing of rows of a DataFrame to an operator's state files: sort, encoding, files, assembly and commit."""
