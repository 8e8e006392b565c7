"""State of PyFlink operators: states by their own names, types that are given or proved, and tables of their values."""
