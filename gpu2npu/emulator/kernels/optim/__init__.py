"""Fused optimizers, and the scaling of gradients."""
