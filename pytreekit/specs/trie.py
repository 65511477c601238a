"""All globs at once: a trie over segments from the end of the path, without making any text.

The places in the trie that a path may be at are found once for each state that they form, and each
key that leads on from it, as lazy automata do: what is left for a leaf is a look-up for each key,
until no rule can match any more that comes before the one that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..trees.paths import KeyPath
from .globs import Glob, Segment, segments_of

MOST_STATES = 20_000
"""States that are kept, and transitions from one: with more, all are found anew."""


class Node:
    """A place in the trie: the segments that led here stand at the end of the path.

    Attributes:
        below: The nodes before a literal segment.
        wild: The nodes before a segment with `*`.
        deep: The node before `**`.
        repeats: Whether it is before `**` itself, so that any segment leads back to it.
        end: The first rule that ends here, whatever comes before in the path.
        whole: The first rule that ends here, if nothing comes before.
        least: The first rule that ends here or further on.
    """

    def __init__(self, most: int, least: int, *, repeats: bool = False) -> None:
        self.below: dict[str, Node] = {}
        self.wild: dict[Segment, Node] = {}
        self.deep: Node | None = None
        self.repeats = repeats
        self.end = self.whole = most
        self.least = least

    def before(self, segment: Segment, most: int, number: int) -> Node:
        """The node before a segment. Rules come in order: the first to ask for it is the least."""
        if segment.is_deep:
            self.deep = self.deep or Node(most, number, repeats=True)
            return self.deep
        literal = segment.literal
        nodes: dict[Any, Node] = self.wild if literal is None else self.below
        key = segment if literal is None else literal
        if key not in nodes:
            nodes[key] = Node(most, number)
        return nodes[key]

    def next(self, segment: str) -> Iterable[Node]:
        """The nodes that a segment leads to."""
        if self.repeats:
            yield self
        if segment in self.below:
            yield self.below[segment]
        for its, node in self.wild.items():
            if its.matches(segment):
                yield node


class State(dict[Any, Any]):
    """The nodes that a path is at, read from its end: a map from the next key to the next state.

    Attributes:
        first: The first rule that matches, whatever comes before in the path.
        whole: The first rule that matches, if nothing comes before.
        ends: Whether nothing that comes before can make an earlier rule match.
    """

    def __init__(self, trie: Trie, nodes: Iterable[Node], first: int) -> None:
        super().__init__()
        self._trie = trie
        self.first = min([first, *(node.end for node in nodes)])
        self.whole = min([self.first, *(node.whole for node in nodes)])
        self._nodes = [node for node in nodes if node.least < self.first]
        self.ends = not self._nodes

    def __missing__(self, key: Any) -> State:
        found = self.after(key)
        if len(self) < MOST_STATES:
            self[key] = found
        return found

    def after(self, key: Any) -> State:
        """The state that a key leads to."""
        state = self
        segments = segments_of(key, self._trie.separators)
        self._trie.cuts_keys |= len(segments) > 1
        for segment in reversed(segments):
            if state.ends:
                return self._trie.state((), state.first)
            nodes = [behind for node in state._nodes for behind in node.next(segment)]
            state = self._trie.state(nodes, state.first)
        return state


class Trie:
    """The globs of many rules.

    Args:
        rules: The globs of each rule, in order; none for a rule that is no glob.
        separators: The characters that cut a path into segments.

    Attributes:
        cuts_keys: Whether a key was seen that has separators in its text.
    """

    def __init__(self, rules: Sequence[Sequence[Glob]], separators: str) -> None:
        self.most = len(rules)
        self.separators = separators
        self.cuts_keys = False
        self._root = Node(self.most, next((n for n, its in enumerate(rules) if its), self.most))
        self._states: dict[tuple[int, frozenset[int]], State] = {}
        for number, globs in enumerate(rules):
            for glob in globs:
                self._add(glob, number)

    def first(self, paths: Iterable[KeyPath]) -> list[int]:
        """The first rule that matches each path, `most` where none does."""
        start = self.state([self._root], self.most)
        found: list[int] = []
        for path in paths:
            state = start
            for key in reversed(path):
                if state.ends:
                    found.append(state.first)
                    break
                try:
                    state = state[key]
                except TypeError:  # a user's class of keys that has no hash
                    state = state.after(key)
            else:
                found.append(state.whole)
        return found

    def state(self, nodes: Iterable[Node], first: int) -> State:
        """The state of being at nodes, after a rule was found to match."""
        unique = {id(node): node for start in nodes for node in _with_deep(start)}
        key = first, frozenset(unique)
        known = self._states.get(key)
        if known is None:
            if len(self._states) >= MOST_STATES:
                self._states = {}
            known = self._states[key] = State(self, list(unique.values()), first)
        return known

    def _add(self, glob: Glob, number: int) -> None:
        node = self._root
        for segment in reversed(glob.segments):
            node = node.before(segment, self.most, number)
        if glob.rooted:
            node.whole = min(node.whole, number)
        else:
            node.end = min(node.end, number)


def _with_deep(node: Node) -> Iterable[Node]:
    """A node, and that before `**` with no segment in its place."""
    yield node
    if node.deep is not None:
        yield node.deep
