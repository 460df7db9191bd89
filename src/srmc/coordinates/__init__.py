"""Coordinates in which draws are near white, or near Gaussian."""
