"""Energy-based models of images: their data, their networks, and how they are trained.

Networks are Equinox modules, so that this room needs `pip install 'srmc[images]'`. Nothing is
imported here, for the other experiments must run without it.
"""
