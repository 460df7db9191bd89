"""The model of all jobs, the run that they are parts of, and where it is stored."""

import os

import srmc

MODEL = srmc.targets.logistic()
RUN = {"num_chains": 16, "num_warmup": 1000, "num_samples": 1000, "seed": 0}
FOLDER = os.environ.get("RUNS", "runs")  # on a disk that all jobs see, or a URL such as s3://...
