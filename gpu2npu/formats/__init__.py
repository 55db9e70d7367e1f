"""Files that are not Python source: each format reads a text with exact positions and says what to change in it."""

from gpu2npu.formats.dispatch import may_concern, migrate_file
from gpu2npu.formats.kinds import Kind, kind_of

__all__ = ["Kind", "kind_of", "may_concern", "migrate_file"]
