"""What can be wrong with a spec tree: faults, and the catalogue of their codes. Data, no layout."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

CODES: dict[str, str] = {
    "PTK001": "a wrong kind of argument",
    "PTK101": "no such axis",
    "PTK102": "mapped axes have different sizes",
    "PTK103": "nothing is mapped and axis_size is missing",
    "PTK104": "cannot be mapped",
    "PTK105": "no such parameter",
    "PTK106": "a parameter has no entry",
    "PTK107": "an axis must be an int or None",
    "PTK108": "does not fit out_axes",
    "PTK109": "mapped axes are sharded differently",
    "PTK110": "chunk_size does not go with axis_name",
    "PTK111": "no chunk fits in the memory",
    "PTK201": "keys differ",
    "PTK202": "container types differ",
    "PTK203": "numbers of entries differ",
    "PTK204": "static fields differ",
    "PTK205": "trees differ",
    "PTK301": "there is no such mesh axis",
    "PTK302": "a spec is longer than the rank",
    "PTK303": "a dimension does not divide",
    "PTK304": "a mesh axis is used twice",
    "PTK305": "no rule matches",
    "PTK306": "a bad rule",
    "PTK307": "a logical name gets no mesh axis",
    "PTK308": "can be read in several ways",
    "PTK309": "is not explained by the parameters",
    "PTK310": "is laid out otherwise",
    "PTK311": "is whole on every device",
    "PTK312": "axes in an order that JAX cannot keep",
    "PTK401": "is differentiated, so it cannot be mapped",
    "PTK402": "has no float to differentiate",
    "PTK403": "the loss of one example is no real scalar",
    "PTK404": "no bound of a norm",
    "PTK405": "no mask of the examples",
    "PTK406": "an empty batch has no mean",
    "PTK407": "the method clips whole gradients only",
    "PTK408": "the loss takes in other examples",
    "PTK409": "the loss has effects in an order",
    "PTK410": "gradients of examples take too much memory",
    "PTK501": "not the mesh that is set",
    "PTK502": "in_specs cannot be inferred",
    "PTK503": "an argument is laid out otherwise",
    "PTK504": "an argument is passed by keyword",
    "PTK505": "an output may differ from shard to shard",
    "PTK506": "more examples than devices",
    "PTK507": "static_broadcasted_argnums do not fit",
    "PTK508": "a training step returns something else",
    "PTK509": "examples are not split over axis",
    "PTK601": "the dtype is not the declared one",
    "PTK602": "the number of dimensions is not the declared one",
    "PTK603": "a size is not the declared one",
    "PTK604": "the type is not the declared one",
    "PTK605": "the axis cannot be inferred",
    "PTK701": "the step cannot be taken to another process",
    "PTK702": "was not compiled",
    "PTK751": "is gathered whole on each device",
    "PTK752": "comes out whole on each device",
    "PTK753": "a mesh axis splits no array",
    "PTK754": "a loop sends what could be sent once",
    "PTK801": "a file cannot be opened",
    "PTK802": "a file of no known form",
    "PTK803": "a file has another length than its header says",
    "PTK804": "what a file says cannot be read",
    "PTK805": "an entry of a file is no array",
    "PTK806": "an index does not fit its files",
    "PTK807": "an index leads out of its folder",
    "PTK901": "a keyword is mapped against in_axes",
    "PTK902": "the words of a raw key are mapped",
    "PTK903": "a negative axis counts differently on each leaf",
    "PTK904": "axis_name is bound already",
    "PTK905": "axis_size is no int",
    "PTK951": "is shared, though it has the size of the batch",
    "PTK952": "is one key for all examples",
    "PTK953": "the batch has no example, or one",
}
"""Every code and its one-line title. Codes are stable: one is never given a second meaning."""


class Place(NamedTuple):
    """A leaf that a fault is measured against: where it is, what is there, what its spec says."""

    place: str
    found: str
    note: str
    entry: str


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing that is wrong between a spec tree and the tree that it speaks of.

    A fault is data, all of it text; `SpecError` lays faults out for people to read. Two faults are
    equal when all their fields are.

    Args:
        code: The stable code, such as `"PTK101"`, or one of your own.
        argument: The name of the argument (or other tree) that the fault is in, `""` for none.
        path: Where in that argument, as `jax.tree_util.keystr` prints it: `"['layer1']['w']"`.
        spec_path: The place in the spec that governs it: `"in_axes[0]['w']"`.
        found: What is there: a dtype and shape, `"f32[32,8]"`, or a type.
        wanted: What the spec says at that place: `"1"`.
        hint: A repair that was tried and found to work, `""` where there is none.
        fact: The fault in one line; by default the title of the code.
        note: One more fact, such as the axes that there are.
        beside: The places that this one disagrees with.

    Examples:
        >>> import pytreekit as ptk
        >>> fault = ptk.Fault("MY101", "params", "['w']", "scales['w']", "f32[3]", "-1.0",
        ...                   fact="a scale must be positive")
        >>> fault.place
        "params['w']"
    """

    code: str
    argument: str
    path: str
    spec_path: str
    found: str
    wanted: str
    hint: str = ""
    fact: str = ""
    note: str = ""
    beside: tuple[Place, ...] = ()

    @property
    def place(self) -> str:
        """The argument and the path in it, `"params['w']"`."""
        return self.argument + self.path

    @property
    def entry(self) -> str:
        """The governing place in the spec and what it says, `"in_axes[0]['w'] = 1"`."""
        return f"{self.spec_path} = {self.wanted}" if self.wanted else self.spec_path

    @property
    def title(self) -> str:
        """The fault in one line."""
        return self.fact or CODES.get(self.code, "")
