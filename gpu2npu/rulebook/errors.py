"""What is wrong with a rule file."""

from __future__ import annotations


class RuleError(ValueError):
    """A rule file cannot be used; the text is one sentence for the user."""
