"""What a run leaves, and how a person looks at it: summary, plots, tables, files, ArviZ."""
