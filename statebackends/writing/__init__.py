"""Writing of rows of a DataFrame to an operator's state files: types, sort, encoding, commit."""
