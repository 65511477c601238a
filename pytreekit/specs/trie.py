"""All globs at once: a trie over segments from the end of the path, without making any text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jax.tree_util import keystr

from ..trees.paths import KeyPath
from .patterns import Glob, Segment


class Segments(dict[Any, Any]):
    """The segment that a key of a path is in text; a tuple of them where that is not one.

    Keys that are equal are one key, as they are to JAX.
    """

    def __init__(self, separators: str) -> None:
        super().__init__()
        self._separators = separators

    def __missing__(self, key: Any) -> str | tuple[str, ...]:
        text = keystr((key,), simple=True, separator="/")
        cut = split(text, self._separators)
        self[key] = found = text if len(cut) == 1 else cut
        return found

    def of(self, path: KeyPath) -> list[str]:
        """The segments of a path."""
        found: list[str] = []
        for key in path:
            its = self[key]
            if isinstance(its, str):
                found.append(its)
            else:
                found.extend(its)
        return found


def split(text: str, separators: str) -> tuple[str, ...]:
    """A text cut into segments."""
    for separator in separators[1:]:
        text = text.replace(separator, separators[0])
    return tuple(text.split(separators[0]))


class Node:
    """A place in the trie: what may come before the segments that led here.

    Attributes:
        below: The nodes behind a literal segment.
        wild: The nodes behind a segment with `*`.
        deep: The node behind `**`.
        end: The lowest rule that ends here, whatever comes before.
        whole: The lowest rule that ends here, if nothing comes before.
        plain: Whether there is nothing here but literal segments.
    """

    __slots__ = ("below", "deep", "end", "plain", "whole", "wild")

    def __init__(self, most: int) -> None:
        self.below: dict[Any, Node] = {}
        self.wild: dict[Segment, Node] = {}
        self.deep: Node | None = None
        self.end = self.whole = most
        self.plain = True

    def behind(self, segment: Segment, most: int) -> Node:
        """The node behind a segment."""
        if segment.literal is not None:
            return self.below.setdefault(segment.literal, Node(most))
        self.plain = False
        if not segment.is_deep:
            return self.wild.setdefault(segment, Node(most))
        if self.deep is None:
            self.deep = Node(most)
        return self.deep


class Trie:
    """The globs of many rules.

    Args:
        rules: The globs of each rule, in order; none for a rule that is no glob.
        separators: The characters that cut a path into segments.
    """

    def __init__(self, rules: Sequence[Iterable[Glob]], separators: str = "/") -> None:
        self.most = len(rules)
        self._segments = Segments(separators)
        self._root = Node(self.most)
        for number, globs in enumerate(rules):
            for glob in globs:
                self._add(glob, number)

    def _add(self, glob: Glob, number: int) -> None:
        node = self._root
        for segment in reversed(glob.segments):
            node = node.behind(segment, self.most)
        if glob.rooted:
            node.whole = min(node.whole, number)
            node.plain = False
        else:
            node.end = min(node.end, number)

    def first(self, paths: Iterable[KeyPath]) -> list[int]:
        """The first rule that matches each path, `most` where none does."""
        segments, root, most = self._segments, self._root, self.most
        found: list[int] = []
        for path in paths:
            node, best, at = root, most, len(path)
            while node.plain:
                if node.end < best:
                    best = node.end
                if not at:
                    break
                at -= 1
                segment = segments[path[at]]
                if segment.__class__ is not str:
                    best = self._first_of(segments.of(path))
                    break
                node = node.below.get(segment)
                if node is None:
                    break
            else:
                best = self._first_of(segments.of(path[:at]), node, best)
            found.append(best)
        return found

    def _first_of(self, segments: list[str], node: Node | None = None, best: int | None = None) -> int:
        """The first rule that matches the segments before a node."""
        best = self.most if best is None else best
        pending = [(node or self._root, len(segments))]
        seen: set[tuple[int, int]] = set()
        while pending:
            here, at = pending.pop()
            if (id(here), at) in seen:
                continue
            seen.add((id(here), at))
            best = min(best, here.end)
            if here.deep is not None:
                pending += [(here.deep, before) for before in range(at + 1)]
            if not at:
                best = min(best, here.whole)
                continue
            segment = segments[at - 1]
            pending += [(behind, at - 1) for its, behind in here.wild.items() if its.matches(segment)]
            behind = here.below.get(segment)
            if behind is not None:
                pending.append((behind, at - 1))
        return best
