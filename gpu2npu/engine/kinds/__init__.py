"""The kinds of rules as they match in Python and edit it. Their JSON is in gpu2npu/kinds/."""
