"""Jobs on several ranks, ended in every way there is, and what became of them. `python -m tools.stress --help`."""
