"""Columns of generic types whose classes are described by class files or in the option ``kryoTypes``."""
