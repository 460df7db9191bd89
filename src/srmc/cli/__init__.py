"""The command line: `srmc sample`, `show`, `targets`, and the commands of installed studies.

The names in `__all__` are for commands of other packages, which `srmc` finds by the entry point
`srmc.commands`.
"""

from srmc._extras import extra
from srmc._files import check_writable, write_whole
from srmc._progress import progress_bar
from srmc.sample.stop import ending_all

with extra("the command srmc"):
    from srmc.cli.terminal import console, fail, find_model

__all__ = [
    "check_writable",
    "console",
    "ending_all",
    "fail",
    "find_model",
    "progress_bar",
    "write_whole",
]
