"""State of PyFlink operators: states by their own names, types that are said or proved, and tables of their values."""
