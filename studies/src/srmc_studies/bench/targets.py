"""The targets of the studies."""

from collections.abc import Callable

import srmc
from srmc.targets import Target

TARGETS: dict[str, Callable[[], Target]] = {
    "gaussian-10": lambda: srmc.targets.gaussian(10),
    "gaussian-200": lambda: srmc.targets.gaussian(200),
    "ellipsoid-50": lambda: srmc.targets.ellipsoid(50, 1e4),
    "rotated-20": lambda: srmc.targets.ellipsoid(20, 100.0, rotate=True),
    "logistic": srmc.targets.logistic,
    "breast-cancer": srmc.targets.breast_cancer,
    "eight-schools": srmc.targets.eight_schools,
    "eight-schools-centred": lambda: srmc.targets.eight_schools(centred=True),
    "banana": srmc.targets.banana,
    "funnel": srmc.targets.funnel,
    "student-t": srmc.targets.student_t,
    "mixture": lambda: srmc.targets.mixture((0.7, 0.3), ((-1.5, 0.0), (1.5, 0.0)), (0.7, 0.7)),
    "cox-256": srmc.targets.cox,
    "ellipsoid-1000": lambda: srmc.targets.ellipsoid(1000, 100.0),
}
