"""Networks looked into: read as layers, bounded over boxes, and the fewest changes and least distance proved."""
