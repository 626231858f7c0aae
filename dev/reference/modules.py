"""The product's modules and what they define: the reference takes in what is there, not what somebody listed."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

PROGRAMS: Final = ("netclaim", "nso", "vpc_controller", "webhook", "node_agent", "netclaimctl")


@dataclass(frozen=True, slots=True)
class Constant:
    """A module's constant; `told` is the text below it."""

    module: str
    name: str
    value: Any
    told: str


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every module of every program, in the order of their names. `__main__` modules are run, not imported."""
    found = []
    for package in PROGRAMS:
        root = importlib.import_module(package)
        names = sorted(each.name for each in pkgutil.walk_packages(root.__path__, f"{package}."))
        found += [root, *(importlib.import_module(name) for name in names if not name.endswith("__main__"))]
    return tuple(found)


@cache
def constants(module: ModuleType) -> tuple[Constant, ...]:
    """The upper-case names that the module itself assigns, each with the string that stands below it."""
    return tuple(_constants(module))


def _constants(module: ModuleType) -> Iterator[Constant]:
    body = ast.parse(inspect.getsource(module)).body if module.__file__ else []
    for at, statement in enumerate(body):
        if isinstance(statement, ast.AnnAssign):
            target: ast.expr = statement.target
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        else:
            continue
        if isinstance(target, ast.Name) and target.id.isupper():
            below = body[at + 1] if at + 1 < len(body) else None
            told = ""
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                told = " ".join(str(below.value.value).split())
            yield Constant(module.__name__, target.id, getattr(module, target.id), told)
