"""Layers and losses of networks."""
