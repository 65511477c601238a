"""A spec tree over a tree: bind one value to every leaf, find what does not fit, repair it."""
