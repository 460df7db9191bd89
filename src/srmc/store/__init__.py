"""Files that are complete or absent and never pickled, and checkpoints to resume a run from."""
