"""Tables that analyse the state of operators: sizes, heaviest keys, ages, verification."""
