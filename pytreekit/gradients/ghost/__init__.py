"""Ghost clipping: norms of gradients from what goes into products and comes back."""
