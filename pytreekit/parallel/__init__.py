"""Checked SPMD over devices: shard_map and pmap."""
