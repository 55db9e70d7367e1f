"""The parts that all pages share: their templates, and data for their scripts."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup


def render(template: str, **values: Any) -> str:
    """The page that a template of `templates/` makes of the values."""
    environment = Environment(loader=FunctionLoader(_template), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(template).render(**values)


def _template(name: str) -> str:
    return (files("gpu2npu.report") / "templates" / name).read_text(encoding="utf-8")


def embedded_json(value: Any) -> Markup:
    """JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
