"""`ptk.clipped_grad`: the sum of the gradients of examples, each clipped to a norm."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec

import jax
import jax.numpy as jnp
from jax import Array

from ..batching.call import Call
from ..batching.leaves import agreed_size, leaves
from ..batching.plan import PlannedLeaf
from ..faults import Fault
from ..show import values
from . import argnums as numbers
from . import clip_norms as bounds
from .choice import AUTO, GHOST, IN_TWO, READ, TWO_PASS, Choice, chosen, is_sharded
from .clip_options import MEAN, SUM, ClipOptions
from .clip_plan import ClipPlan
from .floats import Floats
from .judged import check_memory, judged
from .loss import Loss
from .mapped_loss import EXAMPLES, MappedLoss, wrapped
from .methods import Clipping
from .plan import PlannedGradient, gradient_bytes, planned
from .reading import Readings
from .sensitivity import sensitivity

P = ParamSpec("P")


class ClipInfo(NamedTuple):
    """What `ptk.clipped_grad` tells of each example, beside the gradient. A pytree.

    An example that the mask leaves out has norm, weight and loss 0: it adds nothing to their sums.

    Attributes:
        norms: The norm of each gradient before it is clipped, `float[batch]`; where clip_norm is a
            tree, such norms of each part, in a tree like that; where it is `ptk.Rules`, in a dict
            by pattern.
        weights: What each gradient, or part of it, is multiplied with.
        values: The loss of each example.
        aux: What else the loss returns, None if that was not asked for.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> clipped = ptk.clipped_grad(lambda w, x: w @ x, 1.0)
        >>> _, info = clipped(jnp.ones(2), jnp.array([[6.0, 8.0], [0.0, jnp.nan]]))
        >>> info.weights.round(1).tolist(), int(info.nonfinite)
        ([0.1..., 0.0], 1)
    """

    norms: Any
    weights: Any
    values: Array
    aux: Any

    @property
    def nonfinite(self) -> Array:
        """How many examples have a gradient that is not finite: `nan_safe` leaves these out."""
        bad = [~jnp.isfinite(norm) for norm in jax.tree.leaves(self.norms)]
        return jnp.sum(functools.reduce(jnp.logical_or, bad))


class ClippedGrad(Generic[P]):
    """A function that clips the gradients of examples and adds them up.

    It is called as the loss is, with batched arguments, and returns `(gradient, ClipInfo)`.
    """

    __wrapped__: Callable[P, Any]

    def __init__(self, mapped: MappedLoss, options: ClipOptions) -> None:
        functools.update_wrapper(self, mapped.loss.fun, updated=())
        self._mapped = mapped
        self._options = options
        self._readings = Readings()

    @property
    def sensitivity(self) -> Any:
        """The most that adding or removing one example moves the gradient, in norm.

        True of batches of any size. Of a mean over a known number of examples it is less: see
        `.plan(...).sensitivity`. With `nan_safe=False` it is infinite: one NaN makes all NaN.
        """
        return self._sensitivity()

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ClipInfo]:
        """The gradient, and what is told of each example.

        Raises:
            SpecError: If the call has a fault, before the loss is entered; or if the loss returns
                no scalar.
        """
        __tracebackhide__ = True
        mapped, options = self._mapped.resolved(args, kwargs), self._options
        call = mapped.checked(args, kwargs)
        args, kwargs = mapped.varying(args, kwargs)
        floats = mapped.loss.floats(args, kwargs)
        choice = self._choice(mapped, call, floats)
        if choice.faults or self._options.strict:
            mapped.loss.refuse(self._wrong(mapped, call, choice))
        clipping = Clipping(mapped, options.clip_norms, options.rescale, options.nan_safe)
        given = args, kwargs, self._groups(call, floats), choice.chunk_size
        if choice.method in IN_TWO:
            sums = clipping.chunked(*given, ghost=choice.method == TWO_PASS)
        else:
            sums = clipping.materialize(*given, ghost=choice.method == GHOST)
        gradients = [
            self._reduced(leaf, sums.examples).astype(jnp.asarray(its).dtype)
            for leaf, its in zip(sums.gradients, floats.leaves, strict=True)
        ]
        norms, weights = map(options.clip_norms.grouped, (sums.norms, sums.weights))
        info = ClipInfo(norms, weights, sums.values, sums.aux)
        return mapped.loss.gradient_of(floats.gradient(gradients)), info

    def plan(self, *args: Any, **kwargs: Any) -> ClipPlan:
        """What a call would do. Takes `jax.ShapeDtypeStruct`s as it does arrays.

        Raises:
            SpecError: If the call has a fault.
        """
        __tracebackhide__ = True
        mapped = self._mapped.resolved(args, kwargs)
        call = mapped.checked(args, kwargs, look=True)
        floats = mapped.loss.floats(args, kwargs)
        choice, groups = self._choice(mapped, call, floats), self._options.clip_norms.groups
        mapped.loss.refuse(self._wrong(mapped, call, choice))
        entries = [groups[number].place for number in self._groups(call, floats)]
        size, gradients, examples = self._planned(mapped, call, choice, entries)
        return ClipPlan(
            self._mapped.loss.told,
            size,
            choice.chunk_size,
            gradients,
            examples,
            choice.method,
            choice.reason,
            tuple((group.place, group.bound) for group in groups),
            self._sensitivity(None if self._mapped.loss.mask else size),
            choice.estimates,
        )

    def check(self, *args: Any, **kwargs: Any) -> tuple[Fault, ...]:
        """All that is wrong with a call, told by shapes. Raises only what the loss does."""
        faults = self._mapped.faults(args, kwargs)
        if faults:
            return faults
        mapped = self._mapped.resolved(args, kwargs)
        call = mapped.call(args, kwargs)
        choice = self._choice(mapped, call, mapped.loss.floats(args, kwargs))
        return tuple(self._wrong(mapped, call, choice))

    def _choice(self, mapped: MappedLoss, call: Call, floats: Floats) -> Choice:
        return chosen(
            self._options.asked,
            lambda: self._readings.of(mapped, call.args, call.kwargs),
            size=_size(call),
            bytes_each=gradient_bytes(floats),
            sharded=is_sharded(call),
        )

    def _planned(
        self, mapped: MappedLoss, call: Call, choice: Choice, entries: Sequence[str] = ()
    ) -> tuple[Any, tuple[PlannedGradient, ...], tuple[PlannedLeaf, ...]]:
        """The number of examples, the leaves that are differentiated, and all others."""
        size, gradients, examples = planned(mapped.loss, call, entries)
        if choice.method in READ or choice.estimates:
            work = self._readings.of(mapped, call.args, call.kwargs).work
            gradients = gradients if work is None else judged(gradients, work, choice.method)
        return size, gradients, examples

    def _wrong(self, mapped: MappedLoss, call: Call, choice: Choice) -> list[Fault]:
        """PTK409 and PTK410 of a call."""
        faults = list(choice.faults)
        if choice.method in READ and not faults:
            faults += self._readings.of(mapped, call.args, call.kwargs).faults
        memory = self._options.memory
        if faults or not self._options.strict or memory is None:
            return faults
        size, gradients, _ = self._planned(mapped, call, choice)
        at_once = min(choice.chunk_size or size, size)
        return check_memory(gradients, at_once, memory, choice.method)

    def _groups(self, call: Call, floats: Floats) -> list[int]:
        names = self._mapped.names(call)
        return self._options.clip_norms.group_of_each(floats, names, single=self._options.single)

    def _reduced(self, leaf: Array, count: Array) -> Array:
        options = self._options
        if options.normalize_by is not None:
            return leaf / jnp.asarray(options.normalize_by).astype(leaf.dtype)
        return (
            leaf / jnp.maximum(count, 1).astype(leaf.dtype) if options.reduction == MEAN else leaf
        )

    def _sensitivity(self, size: int | None = None) -> Any:
        options = self._options
        return sensitivity(
            [group.bound for group in options.clip_norms.groups],
            rescale=options.rescale,
            nan_safe=options.nan_safe,
            normalize_by=options.normalize_by,
            mean_over=size if options.reduction == MEAN else None,
        )

    def __reduce__(self) -> Any:
        return type(self), (self._mapped, self._options)

    def __repr__(self) -> str:
        told = values.spec(self._options.clip_norms.spec)
        return f"<clipped_grad of {values.function(self._mapped.loss.fun)}, clip_norm={told}>"


def _size(call: Call) -> Any:
    """The number of examples of a call."""
    return agreed_size(call, [leaf for leaf in leaves(call) if leaf.axis is not None])


def clipped_grad(  # noqa: PLR0913  its options are independent of each other
    loss: Callable[P, Any],
    clip_norm: Any,
    argnums: Any = 0,
    *,
    in_axes: Any = EXAMPLES,
    has_aux: bool = False,
    method: str = AUTO,
    chunk_size: int | None = None,
    memory: int | None = None,
    strict: bool = False,
    reduction: str = SUM,
    normalize_by: Any = None,
    mask: str | None = None,
    nan_safe: bool = True,
    rescale_to_unit_norm: bool = False,
    keep_batch_dim: bool = False,
    where: Any = None,
) -> ClippedGrad[P]:
    """The sum of the gradients of all examples, each clipped to a norm first.

    That is the sum of `g * min(1, clip_norm / |g|)`: a single example moves it by no more than
    clip_norm. No noise is added.

    Args:
        loss: A function of one example that returns a real scalar.
        clip_norm: The norm that gradients are clipped to: a number, 0 or more, `math.inf` to clip
            nothing. Or a pytree prefix of what is differentiated, of such numbers, or `ptk.Rules`
            of them: then all that an entry governs, or that a rule takes, is clipped together, and
            apart from the rest.
        argnums: As for `ptk.per_example_grad`.
        in_axes: As for `ptk.per_example_grad`.
        has_aux: As for `ptk.per_example_grad`; what else the loss returns is in `ClipInfo.aux`.
        method: `"materialize"` takes the gradients of all examples, or of `chunk_size` at a time,
            clips them and adds them up. `"ghost"` does so without the gradients of single examples:
            where a parameter goes into products or convolutions, or is looked up by rows, norms and
            sum come from what went in there and what comes back, in one backward pass; elsewhere it
            is differentiated for each example, as `.plan(...)` tells. `"chunked"` takes the norms
            `chunk_size` at a time, and then one gradient of the losses, each times its weight: it
            needs little more memory than an ordinary gradient does, and twice the time or more; not
            with several norms. `"two_pass"` is that with such norms as `"ghost"` has. `"auto"`
            counts what each of them would take, from the shapes in the loss, and is the one that
            should be fastest, in chunks where that helps; `.plan(...)` has the figures.
        chunk_size: How many examples to differentiate at once. Left open, `"materialize"` takes
            all, as do `"ghost"` and `"two_pass"`, the other methods as many as `.plan(...)` says.
        memory: How many bytes a call should take, beside parameters and batch, as far as that can
            be counted: what is left open of `method` and `chunk_size` is chosen so.
        strict: Whether gradients of single examples that exceed `memory` are a fault, PTK410, which
            names the leaf and the line of the loss that makes it necessary to form them.
        reduction: `"sum"`, or `"mean"`, which divides by the number of real examples.
        normalize_by: A number to divide the sum by, such as the expected size of a batch.
        mask: The keyword under which a call passes a mask, `bool[batch]`, True for a real example.
            The loss does not get it. What is masked out counts for nothing, even if it is NaN.
        nan_safe: Whether an example whose gradient is not finite, or has a norm beyond the range
            of its dtype, adds nothing, rather than makes all NaN. `ClipInfo.nonfinite` counts
            it.
        rescale_to_unit_norm: Whether to divide each clipped gradient by what it is clipped to, so
            that its norm is 1 at most; with a clip_norm of 0 it is `g / |g|`.
        keep_batch_dim: As for `ptk.per_example_grad`.
        where: As for `ptk.per_example_grad`.

    Returns:
        A function that is called as the loss is, with batched arguments, and returns
        `(gradient, ClipInfo)`. It has `.sensitivity`, `.plan(...)` and `.check(...)`. A gradient is
        accumulated in at least 32 bits and has the dtype of its leaf.

    Raises:
        SpecError: PTK001, PTK105, PTK107, PTK110, PTK404, PTK405 or PTK407 for a wrong option. When
            called: PTK401 to PTK403, PTK405, PTK406, PTK408 to PTK410, and what `ptk.vmap` raises.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> clipped = ptk.clipped_grad(lambda w, x, y: 0.5 * (w @ x - y) ** 2, clip_norm=1.0)
        >>> xs, ys = jnp.array([[3.0, 4.0], [0.0, 2.0]]), jnp.array([-1.0, -1.0])
        >>> gradient, info = clipped(jnp.zeros(2), xs, ys)
        >>> gradient.round(1).tolist(), info.norms.tolist(), clipped.sensitivity
        ([0.6..., 1.8...], [5.0, 2.0], 1.0)

    After Abadi et al., Deep Learning with Differential Privacy (CCS 2016); norms of parts after
    McMahan et al., Learning Differentially Private Recurrent Language Models (ICLR 2018). Ghost
    clipping after Goodfellow, Efficient Per-Example Gradient Computations (2015), Li et al., Large
    Language Models Can Be Strong Differentially Private Learners (ICLR 2022), and Bu et al.,
    Differentially Private Optimization on Large Model at Small Cost (ICML 2023).
    """
    written = numbers.read(argnums)
    options = ClipOptions(
        bounds.read(clip_norm), written.single, method, chunk_size, reduction, normalize_by,
        nan_safe, rescale_to_unit_norm, memory, strict,
    )  # fmt: skip
    of_one = Loss(loss, written, has_aux=has_aux, where=where, mask=mask, doing="clipped_grad")
    mapped = MappedLoss(of_one, in_axes, keep_batch_dim, options.check_call)
    return ClippedGrad(wrapped(mapped, chunk_size, options.check()), options)
