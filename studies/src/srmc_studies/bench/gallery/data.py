"""Data of the gallery: small published sets, and simulated ones with a fixed seed."""

from typing import NamedTuple

import numpy as np

from srmc.types import Float, Int


def _numbers(text: str) -> Float[np.ndarray, " number"]:
    return np.array(text.split(), float)


# Weights of 30 rats at five ages in days (Gelfand et al., 1990).
RAT_DAYS = np.array([8.0, 15.0, 22.0, 29.0, 36.0])
RATS = _numbers(
    """
    151 199 246 283 320  145 199 249 293 354  147 214 263 312 328  155 200 237 272 297
    135 188 230 280 323  159 210 252 298 331  141 189 231 275 305  159 201 248 297 338
    177 236 285 350 376  134 182 220 260 296  160 208 261 313 352  143 188 220 273 314
    154 200 244 289 325  171 221 270 326 358  163 216 242 281 312  160 207 248 288 324
    142 187 234 280 316  156 203 243 283 317  157 212 259 307 336  152 203 246 286 321
    154 205 253 298 334  139 190 225 267 302  146 191 229 272 302  157 211 250 285 323
    132 185 237 286 331  160 207 257 303 345  169 216 261 295 333  157 205 248 289 316
    137 180 219 258 291  153 200 244 286 324
    """
).reshape(30, 5)

# IQ scores after a drug and after a placebo (Kruschke, 2013).
DRUG = _numbers(
    """
    101 100 102 104 102  97 105 105  98 101 100 123 105 103 100  95 102 106 109 102  82 102 100 102
    102 101 102 102 103 103  97  97 103 101  97 104  96 103 124 101 101 100 101 101 104 100 101
    """
)
PLACEBO = _numbers(
    """
     99 101 100 101 102 100  97 101 104 101 102 102 100 105  88 101 100 104 100 100 100 101 102 103
     97 101 101 100 101  99 101 100 100 101 100  99 101 100 102  99 100  99
    """
)

# British coal-mining disasters per year, 1851 to 1962 (Jarrett, 1979).
COAL_YEARS = np.arange(1851, 1963)
COAL = _numbers(
    """
    4 5 4 1 0 4 3 4 0 6 3 3 4 0 2 6 3 3 5 4 5 3 1 4 4 1 5 5 3 4 2 5 2 2 3 4 2 1 3 2
    2 1 1 1 1 3 0 0 1 0 1 1 0 0 3 1 0 3 2 2 0 1 1 1 0 1 0 1 0 0 0 2 1 0 0 0 1 1 0 2
    3 3 1 1 2 1 1 1 1 2 4 2 0 0 0 1 4 0 0 0 1 0 0 0 0 0 1 0 0 1 0 1
    """
).astype(int)

# Hits in the first 45 times at bat of 18 players in 1970 (Efron and Morris, 1975).
AT_BATS = np.full(18, 45)
HITS = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7])


class Homes(NamedTuple):
    """Log radon of homes, by county, floor, and the log uranium of counties."""

    county: Int[np.ndarray, " home"]
    floor: Float[np.ndarray, " home"]
    uranium: Float[np.ndarray, " county"]
    log_radon: Float[np.ndarray, " home"]


def radon(counties: int = 85, homes: int = 919) -> Homes:
    """Counties of very different sizes, from one home to over a hundred."""
    rng = np.random.default_rng(85)
    share = rng.pareto(1.2, counties)
    county = np.sort(
        np.r_[np.arange(counties), rng.choice(counties, homes - counties, p=share / share.sum())]
    )
    floor = (rng.random(homes) < 0.17).astype(float)
    uranium = rng.normal(0.0, 0.4, counties)
    level = 1.45 + 0.7 * uranium + rng.normal(0.0, 0.2, counties)
    return Homes(county, floor, uranium, level[county] - 0.65 * floor + rng.normal(0, 0.75, homes))


class Visits(NamedTuple):
    """Waiting times in the morning and in the afternoon, by café."""

    cafe: Int[np.ndarray, " visit"]
    afternoon: Float[np.ndarray, " visit"]
    wait: Float[np.ndarray, " visit"]


def cafes(count: int = 20, visits: int = 10) -> Visits:
    """Cafés whose mornings and afternoons are correlated."""
    rng = np.random.default_rng(20)
    effects = rng.multivariate_normal([3.5, -1.0], [[1.0, -0.35], [-0.35, 0.25]], count)
    cafe = np.repeat(np.arange(count), visits)
    afternoon = np.tile(np.arange(visits) % 2, count).astype(float)
    wait = effects[cafe, 0] + effects[cafe, 1] * afternoon
    return Visits(cafe, afternoon, wait + rng.normal(0.0, 0.5, cafe.size))


def mixture(draws: int = 300) -> Float[np.ndarray, " draw"]:
    """Draws of three normal components that overlap a little."""
    rng = np.random.default_rng(3)
    means, sds = np.array([-3.0, 0.0, 3.5]), np.array([0.7, 1.0, 0.8])
    kind = rng.choice(3, draws, p=[0.3, 0.45, 0.25])
    return rng.normal(means[kind], sds[kind])


def yields() -> tuple[
    Int[np.ndarray, " plot"], Int[np.ndarray, " plot"], Float[np.ndarray, " plot"]
]:
    """Yields of plots by variety and block, eight by five, two plots each."""
    rng = np.random.default_rng(8)
    variety, block = (np.tile(x.ravel(), 2) for x in np.indices((8, 5)))
    effect, shade = rng.normal(0, 1.2, 8), rng.normal(0, 0.6, 5)
    return variety, block, 20 + effect[variety] + shade[block] + rng.normal(0, 0.9, variety.size)


def curve(points: int = 30) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """A smooth function at points of a line, with noise."""
    rng = np.random.default_rng(30)
    x = np.sort(rng.uniform(0, 10, points))
    return x, np.sin(x) + 0.4 * np.cos(2.3 * x) + rng.normal(0, 0.25, points)


def ratings(answers: int = 250) -> tuple[Float[np.ndarray, "answer 2"], Int[np.ndarray, " answer"]]:
    """Ratings on a scale of five, and two predictors."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(answers, 2))
    latent = x @ np.array([0.9, -0.5]) + rng.logistic(size=answers)
    return x, np.digitize(latent, [-2.0, -0.5, 0.8, 2.2])


def sparse(
    rows: int = 80, columns: int = 15
) -> tuple[Float[np.ndarray, "row column"], Float[np.ndarray, " row"]]:
    """A regression in which three of the coefficients are not 0."""
    rng = np.random.default_rng(15)
    x = rng.normal(size=(rows, columns))
    beta = np.r_[2.0, -1.5, 1.0, np.zeros(columns - 3)]
    return x, x @ beta + rng.normal(0, 1.0, rows)


def returns(days: int = 100) -> Float[np.ndarray, " day"]:
    """Daily returns whose log volatility is a random walk."""
    rng = np.random.default_rng(100)
    log_volatility = -4.5 + np.cumsum(rng.normal(0, 0.15, days))
    return np.exp(log_volatility) * rng.standard_t(8, days)
