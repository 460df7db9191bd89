"""Discrete spaces: the spaces, the features that repel there, and the kernels."""

from srmc.discrete import kernels

__all__ = ["kernels"]
