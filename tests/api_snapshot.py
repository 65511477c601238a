"""Print the public interface, read from the source without importing it.

`python tests/api_snapshot.py > tests/api.txt` accepts a change; the difference is then reviewed
like any other line of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
PACKAGE = "pytreekit"
MODULES = ("testing",)  # public, beside what the package itself exports


def snapshot(root: Path = ROOT) -> str:
    """Return every exported name with its signature, and the classes that calls hand back."""
    loader = griffe.GriffeLoader(search_paths=[root])
    package = loader.load(PACKAGE, try_relative_path=False)
    loader.resolve_aliases()
    modules = [package, *(package[name] for name in MODULES)]
    exported = {f"{one.path}.{name}": source(one[name]) for one in modules for name in exports(one)}
    shown = {target.path for target in exported.values()}
    lines = [line for name, target in sorted(exported.items()) for line in describe(name, target)]
    queue = list(exported.values())
    while queue:
        for target in mentioned(queue.pop(0), package):
            if target.path not in shown:
                shown.add(target.path)
                queue.append(target)
                lines += describe(target.path, target)
    return "\n".join(lines) + "\n"


def exports(module: griffe.Module) -> list[str]:
    """Return the names in a module's `__all__`."""
    return [name if isinstance(name, str) else name.name for name in module.exports or ()]


def source(found: griffe.Object | griffe.Alias) -> griffe.Object:
    """Return what a re-exported name stands for."""
    return found.final_target if isinstance(found, griffe.Alias) else found


def describe(name: str, target: griffe.Object) -> Iterator[str]:
    """Yield the lines that show one function, class or value."""
    if target.is_function:
        yield from signatures(name, target)
    elif target.is_class:
        bases = ", ".join(str(base) for base in target.bases)
        yield f"class {name}({bases})" if bases else f"class {name}"
        for part in members(target):
            yield from ("    " + line for line in describe(part.name, part))
    else:
        label = " (property)" if "property" in target.labels else ""
        annotation = f": {target.annotation}" if target.annotation is not None else ""
        default = f" = {target.value}" if has_default(target) else ""
        yield f"{name}{annotation}{default}{label}"


def members(target: griffe.Object) -> Iterator[griffe.Object]:
    """Yield the public members of a class, then those that it has from other classes of ours."""
    for part in target.members.values():
        if not part.is_alias and is_public(part):
            yield part
    for part in target.inherited_members.values():
        if is_public(part.final_target):
            yield part.final_target


def has_default(value: griffe.Attribute) -> bool:
    """Return whether a value stands in the class body, rather than being set on each object."""
    return value.value is not None and "class-attribute" in value.labels


def is_public(part: griffe.Object) -> bool:
    """Return whether a member of a class is part of its interface."""
    if part.name in {"__init__", "__call__", "__get__", "__iter__"}:
        return True
    return not part.name.startswith("_")


def signatures(name: str, function: griffe.Function) -> Iterator[str]:
    """Yield a function's overloads, or its one signature."""
    for form in function.overloads or [function]:
        parameters = list(render(form.parameters))
        returns = f" -> {form.returns}" if form.returns is not None else ""
        yield f"{name}({', '.join(parameters)}){returns}"


def render(parameters: griffe.Parameters) -> Iterator[str]:
    """Yield parameters as they are written, with the `/` and `*` between their kinds."""
    kinds = griffe.ParameterKind
    stars = {kinds.var_positional: "*", kinds.var_keyword: "**"}
    starred = {kinds.keyword_only, kinds.var_positional}
    before = None
    for one in parameters:
        if before is kinds.positional_only is not one.kind:
            yield "/"
        if one.kind is kinds.keyword_only and before not in starred:
            yield "*"
        before = one.kind
        annotation = f": {one.annotation}" if one.annotation is not None else ""
        default = "" if one.default is None or one.kind in stars else f" = {one.default}"
        yield f"{stars.get(one.kind, '')}{one.name}{annotation}{default}"
    if before is kinds.positional_only:
        yield "/"


def mentioned(target: griffe.Object, package: griffe.Module) -> Iterator[griffe.Object]:
    """Yield the package's own public classes that annotations of `target` speak of."""
    if target.is_class:
        for part in members(target):
            yield from mentioned(part, package)
        return
    forms = (target.overloads or [target]) if target.is_function else [target]
    for form in forms:
        annotation = form.returns if form.is_function else form.annotation
        names = annotation.iterate() if isinstance(annotation, griffe.Expr) else ()
        for name in names:
            path = getattr(name, "canonical_path", "")
            if path.startswith(f"{PACKAGE}.") and not path.rpartition(".")[2].startswith("_"):
                found = source(package[path.removeprefix(f"{PACKAGE}.")])
                if found.is_class:
                    yield found


if __name__ == "__main__":
    print(snapshot(), end="")
