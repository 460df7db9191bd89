"""Posteriors to compare samplers on: from posteriordb, and with simulated data."""

import os
from collections.abc import Callable

import srmc
from srmc_studies.bench.posteriors import regression, schools, series, simulated
from srmc_studies.bench.posteriors.base import Database, Posterior, of_target

__all__ = ["BUILT_IN", "POSTERIORDB", "Database", "Posterior", "find"]

POSTERIORDB: dict[str, Callable[[Database], Posterior]] = {
    "arK-arK": series.ark,
    "arma-arma11": series.arma,
    "diamonds-diamonds": regression.diamonds,
    "earnings-logearn_interaction": regression.earnings,
    "eight_schools-eight_schools_noncentered": schools.eight_schools_of_posteriordb,
    "garch-garch11": series.garch,
    "gp_pois_regr-gp_regr": series.gaussian_process,
    "kidiq-kidscore_interaction": regression.kidiq,
    "kidiq-kidscore_momiq": lambda database: regression.kidiq(database, interaction=False),
    "kilpisjarvi_mod-kilpisjarvi": regression.kilpisjarvi,
    "mesquite-logmesquite_logvash": regression.mesquite,
    "nes1980-nes": regression.nes,
    "sblrc-blr": regression.blr,
    "sblri-blr": lambda database: regression.blr(database, correlated=False),
}

BUILT_IN: dict[str, Callable[[], Posterior]] = {
    "gaussian-100": lambda: of_target(
        "gaussian-100", srmc.targets.ellipsoid(100, 1000.0, rotate=True)
    ),
    "banana": lambda: of_target("banana", srmc.targets.banana()),
    "eight_schools": schools.eight_schools,
    "eight_schools_centred": lambda: schools.eight_schools(centred=True),
    "brownian_motion": simulated.brownian_motion,
    "german_credit_simulated": simulated.german_credit,
    "german_credit_sparse_simulated": lambda: simulated.german_credit(sparse=True),
    "item_response": simulated.item_response,
    "stochastic_volatility": simulated.stochastic_volatility,
    "german_credit": lambda: simulated.german_credit(simulated=False),
    "german_credit_sparse": lambda: simulated.german_credit(simulated=False, sparse=True),
}


def find(name: str, path: str | os.PathLike[str] | None = None) -> Posterior:
    """A posterior by name; `path` is a checkout of posteriordb, $SRMC_DATA/posteriordb if None."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name not in POSTERIORDB:
        known = ", ".join([*BUILT_IN, *POSTERIORDB])
        raise ValueError(f"posterior must be one of {known}, got {name!r}")
    return POSTERIORDB[name](Database.at(path))
