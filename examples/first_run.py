"""The pictures of docs/tutorials/first-run.md, by its own code: python examples/first_run.py

This writes run.html to the present folder, and its top is a picture, too:

    chromium --headless=new --window-size=1400,920 --screenshot=run-page.png file://$PWD/run.html
"""

import re
from pathlib import Path

from srmc.results.look import save

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"

if __name__ == "__main__":
    blocks = re.findall(r"```python\n(.*?)```", (FOLDER / "first-run.md").read_text(), re.DOTALL)
    scope = {}
    for block in blocks[:2]:
        exec(block, scope)
    save(scope["result"].plot(), FOLDER / "first-run.png")
    scope["result"].report("run.html")
