"""Checkpoints as files: the shapes in them, read without weights and without trust."""
