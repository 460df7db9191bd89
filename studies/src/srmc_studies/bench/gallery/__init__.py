"""Models of the galleries of PyMC and NumPyro, as a new user brings them."""
