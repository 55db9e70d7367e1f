"""The files of a project: found, read, mirrored, and put in place in one step."""
