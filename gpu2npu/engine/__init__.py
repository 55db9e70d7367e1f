"""One file in, new text, changes and findings out. No I/O."""

from gpu2npu.engine.context import ProjectContext, scan_project
from gpu2npu.engine.migrate import has_trigger, migrate_source, unreadable
from gpu2npu.engine.packages import without_own

__all__ = ["ProjectContext", "has_trigger", "migrate_source", "scan_project", "unreadable", "without_own"]
