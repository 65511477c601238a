"""PartitionSpec trees: written by rule or structure, checked against shapes and a mesh."""
