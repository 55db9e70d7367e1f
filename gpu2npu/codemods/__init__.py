"""Structural rewrites that no rule can say. They come before the rules and write code for CUDA, as the source is."""

from gpu2npu.codemods.choice import CodemodChoice, CodemodError
from gpu2npu.codemods.plan import Plan, plan_codemods

__all__ = ["CodemodChoice", "CodemodError", "Plan", "plan_codemods"]
