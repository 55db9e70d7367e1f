"""The files that a program of several ranks writes and reads."""
