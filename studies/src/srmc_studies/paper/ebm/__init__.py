"""Energy-based models of images: their data, their networks, and how they are trained.

Networks are Equinox modules. Nothing is imported here, so that the other experiments start fast.
"""
