"""Ghost clipping: the gradient norms of examples from what goes into products and comes back out."""
