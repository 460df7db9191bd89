"""One chain of a run by itself: the index of the job is the number of the chain.

A job that is stopped before its chain is complete ends with 75; run it again, and it goes on.
"""

import os
import sys

from model import FOLDER, MODEL, RUN

import srmc

INDICES = ("SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX")  # of Slurm and Kubernetes

if __name__ == "__main__":
    chain = next(int(os.environ[name]) for name in INDICES if name in os.environ)
    result = srmc.sample(MODEL, chains=[chain], checkpoint=FOLDER, resume=True, **RUN)
    sys.exit(75 if result.interrupted else 0)
