"""Input and output of bytes: local files, checksums, compression, and the interface of file systems."""
