"""The error for a rule file that cannot be used."""

from __future__ import annotations


class RuleError(ValueError):
    """A rule file cannot be used; the text is one sentence for the user."""
