"""`ptk.Rules`: ordered patterns over the paths of a tree, with a value each."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..show import values as shown
from ..show.errors import SpecError, raise_faults
from ..trees import paths
from ..trees.paths import IsLeaf
from ..trees.sorts import check_sorts
from .assignment import Assignment
from .foreign import AROUND, from_regexes
from .globs import BadPattern
from .matcher import Matcher
from .patterns import Pattern, parsed
from .patterns import prefix as read_prefix
from .reading import Read, bad_rule, place, read
from .regexes import Endless
from .rule_values import UNMATCHED, is_function

if TYPE_CHECKING:
    from .audit import Audit


class Rules:
    r"""Ordered rules over the paths of a tree: a pattern and a value each, the first match wins.

    The path of a leaf is text: its keys with `/` between them, as `keystr(path, simple=True,
    separator="/")` gives it. It ends at the box of an array (`ptk.register_box`), so that one rule
    serves plain trees, boxed ones and nnx states. A pattern is

    - a glob of whole segments at the end of the path: `kernel` is any leaf of that name,
      `mlp/up/kernel` any path that ends so, `mlp/**` all below any `mlp`. A `/` in front binds the
      whole path; `*` matches within a segment, `**` zero or more segments, `{a,b}` either, and `\`
      makes the next character literal, as all others are;
    - or a regular expression, which is searched for in the text: `"re:..."`, or a compiled one.

    A value may be anything: text and `PartitionSpec`s for `ptk.partition_specs`, bools for masks,
    labels, axes, numbers. A function of a path (as text) and a leaf is called for the value.

    Args:
        rules: The pairs `(pattern, value)` in order, or a mapping of patterns to values.
            `ptk.optional(pattern, value)` stands for a rule that may match nothing.
        default: The value of leaves that no rule matches. Without one, they are faults.
        split: The characters that cut a path, and globs, into segments: `"/"`, or `"/."` for trees
            that have dots in their keys, as those of Hugging Face have.

    Attributes:
        entries: The rules in order, each with its `.pattern`, `.value` and whether it is
            `.optional`; the pattern has its `.text`.
        patterns: The patterns alone.
        values: The values alone.
        default: The default, `UNMATCHED` where there is none.
        split: As it was given.

    Raises:
        SpecError: PTK306, with all rules that cannot be read.

    Examples:
        >>> import pytreekit as ptk
        >>> params = {"mlp": {"up": {"kernel": 1, "bias": 2}}, "norm": {"scale": 3}}
        >>> decay = ptk.Rules([("{bias,scale}", False), ("**", True)])
        >>> decay(params)
        {'mlp': {'up': {'bias': False, 'kernel': True}}, 'norm': {'scale': False}}
        >>> frozen = ptk.Rules([("mlp/**", "frozen")], default="trained")
        >>> frozen(params)["norm"]
        {'scale': 'trained'}

    After `match_partition_rules` of EasyLM, whose lists `Rules.from_regexes` reads.
    """

    def __init__(self, rules: Any = (), *, default: Any = UNMATCHED, split: str = "/") -> None:
        found, faults = read(rules, split)
        raise_faults(faults, doing="Rules")
        self.entries: tuple[Read, ...] = tuple(found)
        self.default = default
        self.split = split

    @classmethod
    def _made(cls, rules: Iterable[Read], default: Any, split: str) -> Rules:
        """Rules that have been read."""
        made = cls(default=default, split=split)
        made.entries = tuple(rules)
        return made

    @functools.cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The pattern of each rule."""
        return tuple(rule.pattern for rule in self.entries)

    @functools.cached_property
    def values(self) -> tuple[Any, ...]:
        """The value of each rule."""
        return tuple(rule.value for rule in self.entries)

    @classmethod
    def from_regexes(cls, pairs: Any, *, match: str = "search", default: Any = UNMATCHED) -> Rules:
        """Rules from a list of regular expressions, as other libraries have them.

        EasyLM, scalax and t5x search for an expression anywhere in the path, with `/` between its
        keys; others match it at the start, or, as big_vision does, against the whole path. Their
        lists give the same assignment here, but that a path ends at the box of an array.

        Args:
            pairs: Pairs of an expression and a value, in order.
            match: How an expression has to match: as `re.search`, `re.match` or `re.fullmatch`.
            default: As in `ptk.Rules`.

        Returns:
            Rules with `"re:..."` for patterns.

        Raises:
            SpecError: PTK306, with all expressions that cannot be read.

        Examples:
            >>> import pytreekit as ptk
            >>> from jax.sharding import PartitionSpec as P
            >>> easylm = (("attention/(wq|wk|wv)/kernel", P("fsdp", "mp")), (".*", P(None)))
            >>> ptk.Rules.from_regexes(easylm).patterns[0].text
            're:attention/(wq|wk|wv)/kernel'
        """
        if not isinstance(match, str) or match not in AROUND:
            fact = f"match must be one of {shown.listing([repr(how) for how in AROUND])}"
            raise_faults([bad_rule("match", shown.spec(match), fact)], doing="Rules.from_regexes")
        return cls(from_regexes(pairs, match), default=default)

    @classmethod
    def loads(cls, text: str, form: str) -> Rules:
        """Rules from a text.

        It is a list of rules, or a mapping with the keys `rules`, `default` and `split`. A rule is
        `[pattern, value]`, or a mapping with these two keys, `optional` and `under`; all rules
        together may be one mapping of patterns to values. What the form has no value for is a
        mapping of one key: `{"P": ["model", "_"]}`, `{"tuple": [...]}`, `{"by_rank": {"2": ...}}`,
        `{"none": true}`.

        Args:
            text: The text.
            form: `"json"`, `"yaml"` (which needs PyYAML), or `"toml"`.

        Raises:
            SpecError: PTK306, with all that is wrong in it.

        Examples:
            >>> import pytreekit as ptk
            >>> ptk.Rules.loads('rules = [["mlp/**", "_ model"]]', "toml")
            Rules([('mlp/**', '_ model')])
        """
        from .rule_data import from_data
        from .rule_files import check_form, data_of

        check_form(form, "Rules.loads")
        data, faults = data_of(text, form)
        raise_faults(faults, doing="Rules.loads")
        written = from_data(data)
        found, faults = read(written.rows, written.split)
        raise_faults([*written.faults, *faults], doing="Rules.loads")
        return cls._made(found, written.default, written.split)

    def dumps(self, form: str = "json") -> str:
        """These rules as a text, of which `Rules.loads` makes rules that are equal.

        Args:
            form: `"json"`, `"yaml"` (which needs PyYAML), or `"toml"`.

        Raises:
            SpecError: PTK306, with all values that no file can hold, such as functions.

        Examples:
            >>> import pytreekit as ptk
            >>> from jax.sharding import PartitionSpec as P
            >>> print(ptk.Rules([("up/kernel", P(None, "model"))]).dumps("toml"), end="")
            rules = [
              ["up/kernel", {P = ["_", "model"]}]
            ]
        """
        from .rule_data import as_data
        from .rule_files import check_form, text_from

        check_form(form, "rules.dumps")
        return text_from(as_data(self.entries, self.default, self.split), form)

    @classmethod
    def load(cls, path: Any) -> Rules:
        """Rules from a file, as `Rules.loads` takes them; its suffix says of which form it is.

        Args:
            path: The path of a file that ends in `.json`, `.yaml`, `.yml` or `.toml`.

        Raises:
            SpecError: PTK306, with all that is wrong in it.
            OSError: If it cannot be opened.
        """
        from .rule_files import form_of, text_of

        form = form_of(path)
        return cls.loads(text_of(path), form)

    def dump(self, path: Any) -> None:
        """Write these rules to a file, as `rules.dumps` does; its suffix says in which form.

        Args:
            path: The path of a file that ends in `.json`, `.yaml`, `.yml` or `.toml`.

        Raises:
            SpecError: PTK306, with all values that no file can hold, such as functions.
            OSError: If it cannot be written.
        """
        from .rule_files import form_of, put_text

        form = form_of(path)
        put_text(path, self.dumps(form))

    def __call__(self, tree: Any) -> Any:
        """The tree of values: in the place of each leaf, what its rule says.

        Args:
            tree: Any pytree.

        Returns:
            A tree of the structure of `tree`.

        Raises:
            SpecError: PTK305, if a leaf matches no rule and there is no default; PTK306, if a rule
                cannot tell two leaves apart, has no entry for a rank, or searches without end;
                PTK104, if JAX cannot flatten the tree.
        """
        found = self.assign(tree)
        raise_faults(found.faults(), doing="rules(tree)")
        return found.treedef.unflatten(found.values)

    def assign(
        self, tree: Any, *, is_leaf: IsLeaf = None, prefix: tuple[Any, ...] = ()
    ) -> Assignment:
        """The rule and the value of each leaf, for what is to be checked before it is used.

        Args:
            tree: Any pytree.
            is_leaf: What counts as a leaf besides what JAX takes for one.
            prefix: Keys, as of a key path, that the tree is taken to lie below.

        Returns:
            `.numbers` and `.values` in flattening order, `.faults()`, and paths and texts on
            demand. A leaf that nothing gives a value has the number -1 and the value `UNMATCHED`.

        Raises:
            SpecError: PTK306, if a regular expression searches without end; PTK104, if JAX cannot
                flatten the tree.
        """
        try:
            ends, numbers = self._matcher.numbered(tree, is_leaf, prefix)
        except ValueError:
            raise_faults(check_sorts(tree, "tree"), doing="rules(tree)")
            raise
        except Endless as endless:
            where, text = place(endless.number), self.patterns[endless.number].text
            fault = bad_rule(where, shown.spec(text), endless.fact, endless.note)
            raise SpecError([fault], doing="rules(tree)", where="rules") from None
        said = [*self.values, self.default]
        return Assignment(self, ends, numbers, [said[number] for number in numbers])

    def audit(self, *trees: Any) -> Audit:
        """What each rule takes in trees: which rules match nothing, or only what others took.

        Args:
            trees: At least one pytree. A rule is unused if it matches nothing in any of them.

        Returns:
            `.rules`, `.unused`, `.shadowed`, `.defaulted` and `.unmatched` as data, a table for
            `print` and notebooks, and `.raise_if(unused=True, ...)`.

        Raises:
            SpecError: What `rules.assign` raises; PTK001, if there are no trees.

        Examples:
            >>> import jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> params = {"mlp": {"up": {"kernel": jnp.ones((4, 8)), "bias": jnp.ones(8)}}}
            >>> rules = ptk.Rules([("kernel", "_ model"), ("atn/**", "_"), ("**", "_")])
            >>> print(rules.audit(params))
            3 rules, 1 unused
            +------+---------+-----------+--------+-------+---------------+
            | rule | pattern | value     | leaves | bytes | first         |
            +------+---------+-----------+--------+-------+---------------+
            |    0 | kernel  | '_ model' |      1 |   128 | mlp/up/kernel |
            |    1 | atn/**  | '_'       |      0 |     0 | (unused)      |
            |    2 | **      | '_'       |      1 |    32 | mlp/up/bias   |
            +------+---------+-----------+--------+-------+---------------+
        """
        if not trees:
            fact = "there are no trees, so there is nothing to audit"
            raise_faults([Fault("PTK001", "", "", "", "", "", fact=fact)], doing="rules.audit")
        from .audit import audit

        return audit(self, trees)

    def under(self, prefix: str) -> Rules:
        """The same rules for a part of a larger tree.

        `rules.under("params/vision")` says of the leaves below `params/vision` what `rules` say of
        those of that subtree alone, and nothing of any other leaf; a default becomes a last rule.

        Args:
            prefix: The path of the part from the root: a glob, without or with `/` in front.

        Returns:
            Rules, to be put together with those of other parts by `|`.

        Raises:
            SpecError: PTK306, if the prefix is no glob.

        Examples:
            >>> import pytreekit as ptk
            >>> vision, text = ptk.Rules([("/w", "v")]), ptk.Rules([("w", "t")])
            >>> both = vision.under("vision") | text.under("text")
            >>> both({"vision": {"w": 1}, "text": {"head": {"w": 2}}})
            {'text': {'head': {'w': 't'}}, 'vision': {'w': 'v'}}
        """
        try:
            inside = read_prefix(prefix, self.split)
        except BadPattern as bad:
            fault = bad_rule("prefix", shown.spec(prefix), bad.fact, bad.note)
            raise SpecError([fault], doing="rules.under") from None
        rest = (
            [] if self.default is UNMATCHED else [Read(parsed("**"), self.default, optional=True)]
        )
        its = [rule.below(inside, self.split) for rule in [*self.entries, *rest]]
        return Rules._made(its, UNMATCHED, self.split)

    def __or__(self, override: Any) -> Rules:
        """These rules, and others that come first and whose default counts, if they have one."""
        if not isinstance(override, Rules):
            return NotImplemented
        if override.split != self.split:
            fact = f"rules that split at {self.split!r} and at {override.split!r} are not joined"
            raise SpecError([bad_rule("split", "", fact)], doing="rules | rules") from None
        default = self.default if override.default is UNMATCHED else override.default
        return Rules._made([*override.entries, *self.entries], default, self.split)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rules):
            return NotImplemented
        alike = self.split == other.split and len(self.entries) == len(other.entries)
        mine, its = ((*rules.entries, rules.default) for rules in (self, other))
        return alike and all(map(paths.same, mine, its))

    def __hash__(self) -> int:
        return hash((self.split, *(pattern.text for pattern in self.patterns)))

    def __reduce__(self) -> Any:
        return Rules._made, (self.entries, self.default, self.split)

    def __repr__(self) -> str:
        pairs = ", ".join(f"({rule.pattern.text!r}, {rule.value!r})" for rule in self.entries)
        default = "" if self.default is UNMATCHED else f", default={self.default!r}"
        split = "" if self.split == "/" else f", split={self.split!r}"
        return f"Rules([{pairs}]{default}{split})"

    @functools.cached_property
    def _matcher(self) -> Matcher:
        return Matcher(self.patterns, self.split)

    @property
    def has_default(self) -> bool:
        """Whether there is a default."""
        return self.default is not UNMATCHED

    @property
    def cuts_keys(self) -> bool:
        """Whether a key was looked at that has separators in its text."""
        return self._matcher.cuts_keys

    @functools.cached_property
    def has_functions(self) -> bool:
        """Whether a value is a function, to be called for each of its leaves."""
        return any(map(is_function, (*self.values, self.default)))
