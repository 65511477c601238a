"""Faults, plans and tables as text: the only place that lays out text."""
