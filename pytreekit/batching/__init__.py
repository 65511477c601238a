"""The checked vmap: axes and their checks, the plan, the transformation."""
