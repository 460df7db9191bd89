"""Studies of srmc: measurements of its samplers, and the experiments of the paper."""

__version__ = "0.2.0"
