"""The files of a project, the modules they are, and what they import from each other."""
