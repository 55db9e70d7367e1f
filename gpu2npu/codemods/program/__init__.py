"""The parts of a program that every codemod reads: its files, entries, start and end, loaders, process group."""
