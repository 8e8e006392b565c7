"""From rows of a DataFrame to the state files of an operator: types, sort, encoding, commit."""
