"""Compute knows claims and nothing else of the network (R10)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import nso.compute

MODULES = sorted(Path(nso.compute.__file__).parent.glob("*.py"))
FORBIDDEN = {
    "NETWORKS",
    "NETWORK_CONTEXTS",
    "NETWORK_BINDINGS",
    "SUBNET_CLAIMS",
    "SUBNETS",
    "INTERFACES",
    "VPCS",
    "ATTACHMENTS",
    "NADS",
    "IP_CLASSES",
    "IP_POOLS",
    "IP_CLAIMS",
    "IP_ALLOCATIONS",
}
FORBIDDEN_MODULES = ("netclaim.api.ipam.", "netclaim.api.cloud.", "netclaim.api.cni.", "netclaim.api.network.")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_no_module_of_compute_names_another_kind_of_the_network(module: Path) -> None:
    tree = ast.parse(module.read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    imported = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names & FORBIDDEN == set()
    assert [name for name in imported if f"{name}.".startswith(FORBIDDEN_MODULES)] == []


def test_all_modules_were_looked_at() -> None:
    assert {"workloads", "instances", "slots"} <= {path.stem for path in MODULES}
