"""Helpers for tests of programs on NPUs."""
