"""Dry runs: a training step compiled for a mesh that is not there, and what it would cost."""
