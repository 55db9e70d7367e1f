"""Rule files in, checked rules out."""

from gpu2npu.rulebook.load import load_rulebook
from gpu2npu.rulebook.rule import Rule, Rulebook, RuleError

__all__ = ["Rule", "RuleError", "Rulebook", "load_rulebook"]
