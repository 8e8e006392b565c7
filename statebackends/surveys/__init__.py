"""Tables about what is in the state of operators: sizes, heaviest keys, ages."""
