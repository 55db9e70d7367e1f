"""The two ways in which a whole migration, not one file of it, can fail. Each message is one sentence for the user."""

from __future__ import annotations


class UsageError(ValueError):
    """A request that cannot be carried out: a bad path, version or rule file."""


class OutputError(RuntimeError):
    """The output could not be written, for instance because the disk is full. Nothing of it is left behind."""
