"""Print again what the pages show as output: python docs/site/outputs.py README.md docs/index.md

Plain fenced blocks after a Python block hold the lines that it prints, in order. A Python block
with a line `import srmc` begins a new process.
"""

import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BEGINS = re.compile(r"^import (?:.*, )?srmc$", re.MULTILINE)
MARK = "-- end of a block --"


def printed(programs: list[str]) -> list[list[str]]:
    """The lines that each block of one program prints, without blank ones at the ends."""
    code = f"\nprint({MARK!r})\n".join([*programs, ""])
    command = [sys.executable, "-W", "ignore", "-c", code]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [part.strip("\n").splitlines() for part in out.split(MARK + "\n")[:-1]]


def renewed(page: str) -> str:
    """The page with the outputs of its code; blocks with another number of lines stay."""
    programs: list[list[str]] = []
    fences: list[list[re.Match[str]]] = []  # of the outputs of each Python block
    for found in BLOCK.finditer(page):
        language, text = found.groups()
        if language == "python":
            if not programs or BEGINS.search(text):
                programs.append([])
            programs[-1].append(text)
            fences.append([])
        elif not language and fences:
            fences[-1].append(found)
    outputs = [lines for program in programs for lines in printed(program)]
    changes = []
    for lines, places in zip(outputs, fences, strict=True):
        sizes = [place[2].strip("\n").count("\n") + 1 for place in places]
        while sum(sizes) > len(lines):  # later fences are not output
            sizes.pop()
        if sum(sizes) != len(lines):
            if places and lines:
                sys.stderr.write(f"not replaced: {lines}\n")
            continue
        for place, size in zip(places, sizes, strict=False):
            text, lines = "\n".join(lines[:size]), lines[size:]
            changes.append((place.span(2), text + "\n"))
    for (start, end), text in reversed(changes):
        page = page[:start] + text + page[end:]
    return page


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(renewed(path.read_text()))
