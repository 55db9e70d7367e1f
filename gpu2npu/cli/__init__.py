"""The command line: thin click commands, one file each."""
