"""`gpu2npu rules` and its subcommands."""
