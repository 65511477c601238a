"""What the commands of `pytreekit` do, each in a module of its own; `cli` reads the words."""
