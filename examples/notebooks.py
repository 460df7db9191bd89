"""Run the notebooks of this folder and store what they print: python examples/notebooks.py"""

import base64
import contextlib
import io
import json
from pathlib import Path

import jax
import matplotlib as mpl

mpl.use("agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parent


def run(notebook):
    """The notebook with the text and the figures that its cells make."""
    scope, count, double = {}, 0, jax.config.read("jax_enable_x64")
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec("".join(cell["source"]), scope)
        cell["execution_count"], cell["outputs"] = count, list(outputs(printed.getvalue()))
    jax.config.update("jax_enable_x64", double)  # which PyMC sets
    return scope


def outputs(text):
    if text:
        lines = text.splitlines(keepends=True)
        yield {"output_type": "stream", "name": "stdout", "text": lines}
    for number in plt.get_fignums():
        out = io.BytesIO()
        plt.figure(number).savefig(out, format="png", dpi=80, bbox_inches="tight")
        data = {"image/png": base64.b64encode(out.getvalue()).decode()}
        yield {"output_type": "display_data", "metadata": {}, "data": data}
    plt.close("all")


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = json.loads(path.read_text())
        run(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
