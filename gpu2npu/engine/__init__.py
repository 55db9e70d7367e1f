"""One file in, new text, changes and findings out. No I/O."""

from gpu2npu.engine.context import ProjectContext, scan_project
from gpu2npu.engine.imports import without_own
from gpu2npu.engine.migrate import has_trigger, may_have_trigger, migrate_python, migrate_source, unreadable
from gpu2npu.engine.outcome import Migration

__all__ = [
    "Migration",
    "ProjectContext",
    "has_trigger",
    "may_have_trigger",
    "migrate_python",
    "migrate_source",
    "scan_project",
    "unreadable",
    "without_own",
]
