"""Where kinds live at an API server."""

import pytest

from netclaim.api import resources
from netclaim.api.kinds import KINDS


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (resources.PODS, {}, "/api/v1/pods"),
        (resources.PODS, {"namespace": "shop"}, "/api/v1/namespaces/shop/pods"),
        (resources.NODES, {"name": "node-1"}, "/api/v1/nodes/node-1"),
        (
            resources.CLAIMS,
            {"namespace": "shop", "name": "web-0-eth0", "subresource": "status"},
            "/apis/networking.datumapis.com/v1alpha/namespaces/shop/networkinterfaceclaims/web-0-eth0/status",
        ),
        (
            resources.NADS,
            {"namespace": "shop"},
            "/apis/k8s.cni.cncf.io/v1/namespaces/shop/network-attachment-definitions",
        ),
        (resources.PODS, {"namespace": "a/b"}, "/api/v1/namespaces/a%2Fb/pods"),
    ],
)
def test_paths_follow_group_scope_and_name(resource: resources.Resource, arguments: dict[str, str], path: str) -> None:
    assert resource.path(**arguments) == path


@pytest.mark.parametrize(
    ("resource", "arguments", "problem"),
    [
        (resources.NODES, {"namespace": "shop"}, "not namespaced"),
        (resources.PODS, {"name": "web-0"}, "needs a namespace"),
        (resources.PODS, {"namespace": "shop", "subresource": "status"}, "needs the name"),
    ],
)
def test_a_path_that_cannot_be_is_refused(
    resource: resources.Resource, arguments: dict[str, str], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        resource.path(**arguments)


def test_api_versions_of_core_and_named_groups() -> None:
    assert resources.PODS.api_version == "v1"
    assert resources.WORKLOADS.api_version == "compute.datumapis.com/v1alpha"


def test_no_two_kinds_share_a_short_name_plural_or_kind() -> None:
    """kubectl would pick either of them."""
    words = [
        word
        for kind in KINDS
        for word in {kind.RESOURCE.plural, kind.RESOURCE.kind.lower(), *kind.RESOURCE.short_names}
    ]
    assert len(words) == len(set(words))
