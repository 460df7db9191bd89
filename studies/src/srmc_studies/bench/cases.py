"""The kernels of the studies, and the lengths of their warm-up and run."""

from srmc_studies.bench.study import Case

CASES = {
    "mh": Case("mh", 5000, 20_000),
    "mala": Case("mala", 5000, 20_000),
    "hmc": Case("hmc", 1000, 1000),
    "jittered_hmc": Case("jittered_hmc", 1000, 1000),
    "nuts": Case("nuts", 1000, 1000),
}
