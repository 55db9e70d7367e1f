"""The forecast of a shapes-only run: what it needs of the NPUs, whether that fits, and what would change it."""
