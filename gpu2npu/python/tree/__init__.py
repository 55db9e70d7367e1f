"""One file's syntax tree with exact offsets, and its scopes and bindings."""
