"""The specs of an optimizer's state, from those of the parameters."""
