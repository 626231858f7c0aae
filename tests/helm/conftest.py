"""The helm tier's fixtures: helm itself, built when it is missing, and releases on a real API server."""

from pathlib import Path

import pytest

from dev import builds
from dev.progress import PlainDisplay
from tests.helm.helm import Helm


@pytest.fixture(scope="session")
def helm_binary() -> Path:
    """helm, from the cache; a machine without it builds it once."""
    return builds.ensure([builds.helm()], PlainDisplay())["helm"]


@pytest.fixture(scope="session")
def helm(helm_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm without a cluster: what it renders, it renders for the local cluster's version of Kubernetes."""
    return Helm(helm_binary, home=tmp_path_factory.mktemp("helm"))
