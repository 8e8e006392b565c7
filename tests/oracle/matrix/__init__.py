"""Release by release: what is changed in a snapshot of every backend and format, Flink restores, every value compared.

python -m tests.oracle.matrix --releases 1.16.3 2.3.0
"""
