"""`gpu2npu verify` and its subcommands."""
