"""One run over all nodes of a job, by the same script in every process."""

import jax

jax.distributed.initialize()

from model import FOLDER, MODEL, RUN  # noqa: E402

import srmc  # noqa: E402

if __name__ == "__main__":
    result = srmc.sample(MODEL, checkpoint=FOLDER, resume=True, **RUN)
    if jax.process_index() == 0:
        print(result.summary())
        result.save(f"{FOLDER}/result.nc")
