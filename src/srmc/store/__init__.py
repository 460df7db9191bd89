"""Files: whole or absent, never pickled, and a run on disk that can go on after a kill."""
