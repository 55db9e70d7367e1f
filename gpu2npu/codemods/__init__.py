"""Structural rewrites that no rule can say. They come before the rules and write code for CUDA, as the source is."""

# Nothing is imported here: most that comes here asks only for the user's choice, and most projects need no codemod.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu2npu.codemods.choice import CodemodChoice, CodemodError
    from gpu2npu.codemods.project_plan import Plan, plan_codemods

__all__ = ["CodemodChoice", "CodemodError", "Plan", "plan_codemods"]

_HOMES = {"CodemodChoice": "choice", "CodemodError": "choice", "Plan": "project_plan", "plan_codemods": "project_plan"}


def __getattr__(name: str) -> object:
    """Import the module of one of the names above when it is first asked for."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"gpu2npu.codemods.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
