"""All chains of a run, rebalanced together."""

from model import FOLDER, MODEL

import srmc

if __name__ == "__main__":
    result = srmc.merge(FOLDER, MODEL)
    print(result.summary())
    result.save(f"{FOLDER}/result.nc")
