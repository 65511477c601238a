"""Trees of shapes, rules and meshes, and what comes of them: specs, or faults by code and place."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import jax
from jax.sharding import PartitionSpec as P

SMALL = {"data": 2, "tp": 4}
THREE = {"data": 2, "fsdp": 4, "model": 2}
CUBE = {"data": 2, "fsdp": 2, "tp": 2}


class Case(NamedTuple):
    """A call, and what comes of it.

    Attributes:
        title: What it shows.
        tree: Shapes by path.
        rules: The rules.
        mesh: The mesh.
        specs: The specs of some leaves, as tuples in normal form.
        faults: The code and place of each fault.
        facts: What the text of the faults has in it.
        notes: Kinds of notes that there must be.
        without: Kinds of notes that there must not be.
        options: Other arguments.
    """

    title: str
    tree: dict[str, tuple[int, ...]]
    rules: Any
    mesh: dict[str, int] = SMALL
    specs: dict[str, tuple[Any, ...]] = {}  # noqa: RUF012  never changed
    faults: tuple[tuple[str, str], ...] = ()
    facts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012  never changed


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    """An array of which the shape alone matters."""
    return jax.ShapeDtypeStruct(sizes, "float32")


def nested(shapes: dict[str, tuple[int, ...]]) -> Any:
    """A tree of arrays, of their shapes by path."""
    tree: dict[str, Any] = {}
    for path, sizes in shapes.items():
        *above, last = path.split("/")
        node = tree
        for key in above:
            node = node.setdefault(key, {})
        node[last] = shape(*sizes)
    return tree


TABLE = [
    ("embed", "fsdp"), ("mlp", "tp"), ("heads", "tp"), ("vocab", "tp"), ("vocab", "fsdp"),
    ("vocab", None), ("layers", None), ("batch", ("data", "fsdp")),
]  # fmt: skip
STARVING = [("embed", "fsdp"), ("batch", ("data", "fsdp"))]

MATCHING = [
    Case("whole segments at the end", {"blk/0/q/kernel": (8, 8), "blk/0/mlq/kernel": (8, 8)},
         [("q/kernel", "data tp"), ("**", "_")],
         specs={"blk/0/q/kernel": ("data", "tp"), "blk/0/mlq/kernel": ()}),
    Case("a slash in front binds the whole path", {"w": (8,), "enc/w": (8,)},
         [("/w", "tp"), ("w", "data")], specs={"w": ("tp",), "enc/w": ("data",)}),
    Case("a star is one segment", {"a/b/c/w": (8,)}, [("/a/*/w", "tp")],
         faults=(("PTK305", "tree['a']['b']['c']['w']"),)),
    Case("braces", {"q/kernel": (8, 8), "o/kernel": (8, 8)},
         [("{q,k,v}/kernel", "_ tp"), ("o/kernel", "tp")],
         specs={"q/kernel": (None, "tp"), "o/kernel": ("tp",)}),
    Case("dots are literal", {"model.0.w": (8,), "modelX0Xw": (8,)},
         [("model.*.w", "tp"), ("**", "_")], specs={"model.0.w": ("tp",), "modelX0Xw": ()}),
    Case("the first rule that matches", {"a/w": (8,), "b/w": (8,)},
         [("**", "_"), ("a/w", "tp")], specs={"a/w": (), "b/w": ()}),
    Case("a regex tells numbers apart", {"layers/0/w": (8,), "layers/10/w": (8,)},
         [("re:(^|/)layers/[0-9]/w$", "tp"), ("layers/*/w", "data")],
         specs={"layers/0/w": ("tp",), "layers/10/w": ("data",)}),
    Case("a regex that is none", {"a": (8,)}, [("re:(", "tp"), ("a", "tp")],
         faults=(("PTK306", ""),)),
    Case("a compiled one is searched", {"a/q_x/kernel": (8, 8)}, [(re.compile("q.*kernel"), "tp")],
         specs={"a/q_x/kernel": ("tp",)}),
    Case("all leaves without a rule, the closest rule", {"attn/q/kernel": (8, 8), "embed": (8, 8)},
         [("atn/q/kernel", P()), ("scale", P())],
         faults=(("PTK305", "tree['attn']['q']['kernel']"), ("PTK305", "tree['embed']")),
         facts=("'atn/q/kernel'",)),
    Case("nothing needs nothing", {}, [("**", P())]),
]  # fmt: skip

RANKS = [
    Case("scalars need no rule", {"step": ()}, [], specs={"step": ()}),
    Case("one element is as a scalar", {"temp": (1, 1)}, [("**", "tp")], specs={"temp": ()}),
    Case("no elements divide by anything", {"empty": (0, 8)}, [("**", "tp")],
         specs={"empty": ("tp",)}),
    Case("more entries than dimensions", {"bias": (8,)}, [("**", "data tp")],
         faults=(("PTK302", "tree['bias']"),), facts=("has 1 dimension, its spec has 2 entries",)),
    Case("`...` is no entry", {"b": (8,)}, [("b", P("data", ..., "tp"))],
         faults=(("PTK302", "tree['b']"),), facts=("has 1 dimension, its spec has 2 entries",)),
    Case("from the left, as said", {"w": (8, 8, 8)}, [("w", "tp ...")], specs={"w": ("tp",)},
         without=("under-rank",)),
    Case("from the left, as not said", {"w": (24, 8, 8)}, [("w", P("data", "tp"))],
         specs={"w": ("data", "tp")}, notes=("under-rank",)),
    Case("both ends", {"w": (8, 3, 5, 8)}, [("w", "data ... tp")],
         specs={"w": ("data", None, None, "tp")}),
    Case("`...` for nothing", {"w": (8, 8)}, [("w", P("data", ..., "tp"))],
         specs={"w": ("data", "tp")}),
    Case("from the right", {"d/kernel": (8, 8), "d/bias": (8,)}, [("d/*", "... tp")],
         specs={"d/kernel": (None, "tp"), "d/bias": ("tp",)}),
    Case("layers, and the same without", {"layers/wi": (24, 64, 128), "head/wi": (64, 128)},
         [("wi", "... data tp")],
         specs={"layers/wi": (None, "data", "tp"), "head/wi": ("data", "tp")}),
    Case("experts of layers", {"moe/wi": (24, 8, 64, 128)}, [("moe/wi", "... data fsdp tp")], CUBE,
         specs={"moe/wi": (None, "data", "fsdp", "tp")}),
    Case("layers over the stages of a pipeline", {"wi": (24, 64, 64)}, [("wi", "pp ... tp")],
         {"pp": 4, "tp": 2}, specs={"wi": ("pp", None, "tp")}),
    Case("two `...`", {"w": (8, 8)}, [("w", P(..., "tp", ...))], faults=(("PTK306", ""),)),
]  # fmt: skip

DIVIDING = [
    Case("a vocabulary that does not divide", {"wte": (50257, 768)}, [("wte", "tp _")],
         faults=(("PTK303", "tree['wte']"),),
         facts=("dimension 0 of 50257 does not divide by 4", "tp=4; 50256 or 50260 would divide",
                "3 of padding makes 50260")),
    Case("all that do not divide", {"a": (6, 8), "b": (8, 5), "c": (8, 8)},
         [("**", P("tp", "data"))], faults=(("PTK303", "tree['a']"), ("PTK303", "tree['b']"))),
    Case("faults of all kinds together", {"a": (6, 8), "b": (8,), "c": (8, 8)},
         [("a", P("tp")), ("b", P(None, "tp")), ("c", P("tq"))],
         faults=(("PTK303", "tree['a']"), ("PTK302", "tree['b']"), ("PTK301", "tree['c']"))),
    Case("left out", {"e": (50257, 768)}, [("e", "tp data")], specs={"e": (None, "data")},
         notes=("dropped",), options={"on_indivisible": "replicate"}),
    Case("left out by axis", {"e": (50257, 768), "f": (768, 5)}, [("**", "tp data")],
         faults=(("PTK303", "tree['f']"),), options={"on_indivisible": {"tp": "replicate"}}),
    Case("as much as must be is left out", {"a": (4, 8)}, [("a", P(("fsdp", "model")))], THREE,
         specs={"a": ("fsdp",)}, notes=("dropped",), options={"on_indivisible": "replicate"}),
    Case("by a mark", {"w": (12, 8)}, [("w", "tp+data?")], specs={"w": ("tp",)},
         notes=("dropped",)),
    Case("another axis", {"e": (50258, 768)}, [("e", "tp|data _")], specs={"e": ("data",)},
         notes=("fallback",)),
    Case("heads that are too few", {"k": (2048, 4, 128), "q": (2048, 16, 128)},
         [("{q,k}", "_ tp|_ _")], {"tp": 8}, specs={"k": (), "q": (None, "tp")},
         notes=("fallback", "replicated-large")),
    Case("what has no choice comes first", {"w": (8, 8)}, [("w", "tp|data tp")],
         specs={"w": ("data", "tp")}, notes=("fallback",)),
    Case("no choice is left", {"w": (8, 8, 8)}, [("w", "tp|data tp|data tp|data")],
         faults=(("PTK304", "tree['w']"),)),
    Case("no choice divides", {"w": (9,)}, [("w", "tp|data")], faults=(("PTK303", "tree['w']"),)),
    Case("a choice that may go", {"w": (9,)}, [("w", "tp|data?")], specs={"w": ()},
         notes=("dropped", "fallback")),
    Case("two axes multiply", {"w": (12, 8)}, [("w", "data+tp")], faults=(("PTK303", "tree['w']"),),
         facts=("does not divide by 8", "data=2, tp=4; 8 or 16 would divide")),
    Case("and divide", {"w": (16, 8)}, [("w", "tp+data")], specs={"w": (("tp", "data"),)}),
    Case("size one divides", {"w": (7, 8)}, [("w", "tp")], {"tp": 1}, specs={"w": ("tp",)}),
]  # fmt: skip

NAMES = [
    Case("a slip", {"w": (8, 8)}, [("w", "dta")], faults=(("PTK301", "tree['w']"),),
         facts=("there is no mesh axis 'dta'", "did you mean 'data'?", "data=2, tp=4",
                "fix: write 'data' in rules[0]")),
    Case("no slip", {"w": (8, 8)}, [("w", P("zzz"))], faults=(("PTK301", "tree['w']"),)),
    Case("within a tuple", {"w": (8, 8)}, [("w", P(("data", "tq")))],
         faults=(("PTK301", "tree['w']"),), facts=("'tq'",)),
    Case("for a larger mesh", {"w": (8, 8)}, [("w", "pod+data tp")], specs={"w": ("data", "tp")},
         notes=("dropped",), options={"missing_axes": "drop"}),
    Case("twice", {"w": (16, 8)}, [("w", P(("data", "tp"), "tp"))],
         faults=(("PTK304", "tree['w']"),), facts=("'tp' splits dimension 0 and dimension 1",)),
    Case("twice in one", {"w": (16, 8)}, [("w", P(("tp", "tp")))],
         faults=(("PTK304", "tree['w']"),)),
    Case("an axis that splits nothing", {"w": (8, 8)}, [("w", "tp")], specs={"w": ("tp",)},
         notes=("idle-axis",)),
    Case("a tuple for a spec", {"w": (16, 8, 4)}, [("w", (("data", "tp"), None, "..."))],
         specs={"w": (("data", "tp"),)}),
    Case("None for a spec", {"w": (8, 8)}, [("w", None)], specs={"w": ()}),
    Case("what Python would write", {"w": (8, 8)}, [("w", "P(None, 'tp')")],
         faults=(("PTK306", ""),), facts=("fix: write '_ tp'",)),
    Case("logical names", {"wi": (24, 64, 256)}, [("wi", P("layers", "embed", "mlp"))], CUBE,
         specs={"wi": (None, "fsdp", "tp")}, options={"axes": TABLE}),
    Case("one name for two axes", {"x": (64, 256)}, [("x", "batch _")], CUBE,
         specs={"x": (("data", "fsdp"),)}, options={"axes": TABLE}),
    Case("the first entry of a name", {"x": (64, 64)}, [("x", "embed _")], CUBE,
         specs={"x": ("fsdp",)}, options={"axes": [("embed", "fsdp"), ("embed", "data")]}),
    Case("no such name", {"wi": (64, 256)}, [("wi", "embd mlp")], CUBE,
         faults=(("PTK307", "tree['wi']"),), options={"axes": TABLE},
         facts=("did you mean 'embed'?", "fix: write 'embed mlp' in rules[0]")),
    Case("two names want one axis", {"w": (64, 64)}, [("w", "heads mlp")], CUBE,
         faults=(("PTK307", "tree['w']"),), options={"axes": TABLE},
         facts=("'heads' of dimension 0 gets no mesh axis", "tp is that of 'mlp' in dimension 1")),
    Case("starved", {"x": (64, 64)}, [("x", P("batch", "embed"))], CUBE,
         faults=(("PTK307", "tree['x']"),), options={"axes": STARVING},
         facts=("fsdp is that of 'embed'", "('batch', None) in axes")),
    Case("starved, with an entry more", {"x": (64, 64)}, [("x", P("batch", "embed"))], CUBE,
         specs={"x": ("data", "fsdp")}, options={"axes": [*STARVING, ("batch", "data")]}),
    Case("an entry that does not divide", {"w": (7, 64)}, [("w", "vocab mlp")], CUBE,
         specs={"w": (None, "tp")}, notes=("fallback",), options={"axes": TABLE}),
    Case("the only entry does not divide", {"w": (7, 64)}, [("w", "embed mlp")], CUBE,
         faults=(("PTK303", "tree['w']"),), options={"axes": TABLE}),
    Case("a name in a choice", {"w": (7, 64)}, [("w", "embed|_ mlp|embed")], CUBE,
         specs={"w": (None, "tp")}, options={"axes": TABLE}),
    Case("a mesh axis beside names", {"w": (64, 64)}, [("w", "data embed")], CUBE,
         specs={"w": ("data", "fsdp")}, options={"axes": TABLE}),
    Case("names for a larger mesh", {"w": (64, 64)}, [("w", "embed mlp")], {"tp": 2},
         specs={"w": (None, "tp")}, options={"axes": TABLE, "missing_axes": "drop"}),
    Case("slips stay slips on a smaller mesh", {"w": (64, 64)}, [("w", "embd mlp")], {"tp": 2},
         faults=(("PTK307", "tree['w']"),), options={"axes": TABLE, "missing_axes": "drop"}),
]  # fmt: skip

LLAMA = [
    ("*embed_tokens.weight", "tp fsdp"), ("*.{q,k,v,gate,up}_proj.weight", "tp fsdp"),
    ("*.{o,down}_proj.weight", "fsdp tp"), ("*norm.weight", "replicate"), ("lm_head.*", "tp fsdp"),
]  # fmt: skip
SCANNED = [
    ("embedding", "vocab embed"), ("{query,key,value}/kernel", "... embed heads kv"),
    ("out/kernel", "... heads kv embed"), ("wi_*/kernel", "... embed mlp"),
    ("wo/kernel", "... mlp embed"), ("*norm/scale", "replicate"),
]  # fmt: skip
GPT2 = [
    ("wte/embedding", "tp? fsdp"), ("c_attn/kernel", "tp fsdp"), ("c_proj/kernel", "fsdp tp"),
    ("bias", "replicate"), ("ln_*/scale", "replicate"),
]  # fmt: skip

MODELS = [
    Case("GPT-2, whose vocabulary does not divide",
         {"params/wte/embedding": (50257, 768), "params/h/0/attn/c_attn/kernel": (2304, 768),
          "params/h/0/attn/c_proj/kernel": (768, 768), "params/h/0/ln_1/scale": (768,),
          "opt/0/mu/h/0/attn/c_attn/kernel": (2304, 768), "opt/0/count": ()},
         GPT2, {"fsdp": 2, "tp": 4}, notes=("dropped",),
         specs={"params/wte/embedding": (None, "fsdp"), "opt/0/count": (),
                "params/h/0/attn/c_attn/kernel": ("tp", "fsdp"),
                "opt/0/mu/h/0/attn/c_attn/kernel": ("tp", "fsdp")}),
    Case("Llama with dots in its keys",
         {"model.layers.0.self_attn.k_proj.weight": (1024, 8192), "lm_head.weight": (128256, 8192),
          "model.layers.0.mlp.down_proj.weight": (8192, 28672), "model.norm.weight": (8192,)},
         LLAMA, {"fsdp": 8, "tp": 8},
         specs={"model.layers.0.self_attn.k_proj.weight": ("tp", "fsdp"),
                "model.layers.0.mlp.down_proj.weight": ("fsdp", "tp"), "model.norm.weight": ()}),
    Case("a decoder under scan",
         {"token_embedder/embedding": (32000, 2048), "layers/wo/kernel": (24, 8192, 2048),
          "layers/attn/out/kernel": (24, 16, 128, 2048), "layers/norm/scale": (24, 2048),
          "layers/attn/query/kernel": (24, 2048, 16, 128)},
         SCANNED, {"fsdp": 2, "tp": 4}, options={"axes": [*TABLE[:4], ("kv", None)]},
         specs={"layers/wo/kernel": (None, "tp", "fsdp"),
                "layers/attn/out/kernel": (None, "tp", None, "fsdp")}, without=("under-rank",)),
    Case("layers in another place", {"layers/query/kernel": (4096, 32, 32, 128)},
         [("query/kernel", P("fsdp", None, "tp", None))], {"fsdp": 2, "tp": 4},
         specs={"layers/query/kernel": ("fsdp", None, "tp")}),
]  # fmt: skip

CASES = [*MATCHING, *RANKS, *DIVIDING, *NAMES, *MODELS]
