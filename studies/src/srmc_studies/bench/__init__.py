"""Comparisons with plain kernels and other libraries; each is a command, `srmc bench NAME`."""
