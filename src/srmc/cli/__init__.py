"""The command line: `srmc sample`, `show`, `targets`, `theory`, `bench`, `reproduce`."""

from srmc.cli.main import app

__all__ = ["app"]
