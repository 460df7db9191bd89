"""KaTeX for the site, from the package sphinxcontrib-katex, so that pages need no network."""

from importlib.metadata import distribution
from pathlib import Path
from typing import Any


def on_files(files: Any, config: Any) -> Any:
    """Add the script."""
    from mkdocs.structure.files import File

    path = distribution("sphinxcontrib-katex").locate_file("sphinxcontrib/katex.min.js")
    content = Path(str(path)).read_text(encoding="utf-8")
    files.append(File.generated(config, "site/katex.min.js", content=content))
    return files
