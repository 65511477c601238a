"""A tree alone: key paths, and one level of a node."""
