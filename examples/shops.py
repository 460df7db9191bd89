"""The data of the improve_*.py examples: six shops, three kinds of goods, three measures."""

import numpy as np

COORDS = {
    "shop": ["Aberdeen", "Bath", "Cardiff", "Derby", "Ely", "Frome"],
    "kind": ["bread", "cake", "pie"],
    "measure": ["price", "weight", "time"],
    "measure_too": ["price", "weight", "time"],
}
DIMS = {
    "raw": ["shop"],
    "theta": ["shop"],
    "p": ["kind"],
    "sd": ["measure"],
    "corr": ["measure", "measure_too"],
}

_rng = np.random.default_rng(7)
SHOP = np.repeat(np.arange(6), 8)  # the shop of each sale
SALES = 2.0 + 0.7 * _rng.standard_normal(6)[SHOP] + _rng.standard_normal(48)
COUNTS = np.array([12, 7, 4])  # sales by kind
MEASURES = _rng.standard_normal((40, 3)) @ np.array([[1.0, 0.6, 0.0], [0, 0.8, -0.3], [0, 0, 0.9]])
