"""Gradients of each example of a batch: taken, clipped, and what they say."""
