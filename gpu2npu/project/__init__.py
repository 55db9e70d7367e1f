"""A tree in, a tree out: discovery, mirroring, atomic writes, parallel workers."""
