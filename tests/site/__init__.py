"""The documentation site, made by Sphinx from READMEs, docstrings and notebooks: ``python -m tests.site FOLDER``."""
