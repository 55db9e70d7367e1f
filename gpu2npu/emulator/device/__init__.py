"""The device: its tensor, dispatch, memory, streams and random state."""
