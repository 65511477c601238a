"""How large chunks may be: by what XLA says that a compiled call takes."""

from __future__ import annotations

import functools
from typing import Any

import jax

from ..faults import Fault
from ..show import values
from ..show.errors import SpecError, raise_faults
from .vmapped import Mapped, check_mapped


def suggest_chunk_size(fun: Mapped, *args: Any, memory: int, **kwargs: Any) -> int:
    """The largest chunk_size whose temporaries fit in so much memory.

    A few sizes are compiled, none is run. Arguments and outputs, which are whole whatever the size
    of a chunk, are not counted.

    Args:
        fun: A function mapped by `ptk.vmap`; it is left as it is.
        args: The arguments of a call: arrays, or `jax.ShapeDtypeStruct`s for them.
        memory: How much temporaries may take, in bytes.
        kwargs: The keywords of that call.

    Returns:
        The size of the whole batch if that fits, else a power of two.

    Raises:
        SpecError: PTK001, if `fun` is no mapped function or `memory` no positive int, or if the
            backend does not tell what a compiled call takes; PTK111, if not even a single example
            fits; and all that the call would raise.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> outer = ptk.vmap(lambda x: jnp.sin(jnp.outer(x, x)) @ x)
        >>> xs = jax.ShapeDtypeStruct((1024, 64), jnp.float32)
        >>> size = ptk.suggest_chunk_size(outer, xs, memory=2**20)
        >>> 1 <= size < 1024
        True
    """
    _check_options(fun, memory)
    size = fun.plan(*args, **kwargs).axis_size
    taken = functools.cache(lambda chunk: temporaries(fun, chunk, args, kwargs))
    if size == 0 or taken(size) <= memory:
        return max(size, 1)
    chunk = 1 << max(int(size * memory / taken(size)), 1).bit_length() - 1
    while taken(chunk) > memory:
        if chunk == 1:
            raise _nothing_fits(fun, taken(1), memory) from None
        chunk //= 2
    while 2 * chunk < size and taken(2 * chunk) <= memory:
        chunk *= 2
    return chunk


def _check_options(fun: Any, memory: Any) -> None:
    wrong = check_mapped(fun, "fun")
    if type(memory) is not int or memory < 1:
        fact = "memory must be a positive int, in bytes"
        wrong.append(Fault("PTK001", "", "", "memory", "", values.spec(memory), fact=fact))
    raise_faults(wrong, doing="suggest_chunk_size")


def _nothing_fits(fun: Any, taken: int, memory: int) -> SpecError:
    fact = f"the temporaries of a single example take {taken / 2**20:.1f} MiB"
    note = f"{memory / 2**20:.1f} MiB"
    fault = Fault("PTK111", "", "", "memory", "", str(memory), fact=fact, note=note)
    return SpecError([fault], doing=f"suggest_chunk_size({values.function(fun)})")


def temporaries(fun: Mapped, chunk: int, args: Any, kwargs: Any) -> int:
    """How many bytes of temporaries a call takes in chunks of so many examples."""
    leaves, structure = jax.tree.flatten((args, kwargs))
    typed = [index for index, leaf in enumerate(leaves) if values.typeof(leaf) is not None]
    chunked = fun.in_chunks(chunk)

    def call(arrays: list[Any]) -> Any:
        its = leaves.copy()
        for index, array in zip(typed, arrays, strict=True):
            its[index] = array
        again, keywords = structure.unflatten(its)
        return chunked(*again, **keywords)

    compiled = jax.jit(call).lower([leaves[index] for index in typed]).compile()
    analysis = compiled.memory_analysis()
    if analysis is None:
        fact = f"{jax.default_backend()} does not tell what a call takes"
        fault = Fault("PTK001", "", "", "memory", "", "", fact=fact)
        raise SpecError([fault], doing=f"suggest_chunk_size({values.function(fun)})")
    return analysis.temp_size_in_bytes
