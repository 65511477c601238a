"""How a tree lies on a mesh, as one value: placed, made, constrained, verified, shown."""
