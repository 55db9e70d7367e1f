"""The language server: what `check` finds, in an editor, as a text is typed."""
