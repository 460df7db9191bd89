"""The result of a run, and ways to look at it: summary, plots, tables, files, ArviZ."""
