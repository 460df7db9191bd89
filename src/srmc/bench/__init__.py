"""Comparisons with other libraries, each a command: `srmc bench NAME`."""
