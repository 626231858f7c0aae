"""The flags of nso."""

import pytest

from netclaim.kube.process import parse
from nso.settings import Settings


def settings(*argv: str) -> Settings:
    return parse(Settings, argv, program="nso")


def test_the_location_is_required_unless_only_ipam_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Claims.md: --location (required)."""
    with pytest.raises(SystemExit) as ended:
        settings("--controllers=networks,claims")
    assert ended.value.code == 2
    assert "--location is required" in capsys.readouterr().err
    assert settings("--controllers=ipam").location == ""
    assert settings("--location=us-central-1").location == "us-central-1"


@pytest.mark.parametrize("chosen", ["", ",", "network", "networks;claims"])
def test_unknown_or_no_controllers_are_refused_with_the_choice(chosen: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error must not start a program that does nothing."""
    with pytest.raises(SystemExit) as ended:
        settings("--location=us-central-1", f"--controllers={chosen}")
    assert ended.value.code == 2
    assert "choose among networks, claims, compute, ipam" in capsys.readouterr().err


def test_controllers_are_a_set_whatever_order_they_are_named_in() -> None:
    """Two replicas with the same set wait for one Lease."""
    one = settings("--location=x", "--controllers=claims,networks")
    other = settings("--location=x", "--controllers=networks, claims")
    assert one.controllers == other.controllers == ("networks", "claims")
    assert one.lease == other.lease == "nso-networks-claims"


def test_processes_with_different_controllers_do_not_wait_for_each_other() -> None:
    """Architecture.md: IPAM can run beside its own control plane."""
    whole, ipam = settings("--location=x"), settings("--controllers=ipam")
    assert whole.lease == "nso"
    assert ipam.lease == "nso-ipam"
    assert settings("--controllers=ipam", "--lease-name=mine").lease == "mine"


def test_every_flag_is_an_environment_variable_and_the_flag_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims.md: settings are one model."""
    monkeypatch.setenv("NETCLAIM_LOCATION", "eu-west-1")
    monkeypatch.setenv("NETCLAIM_CONTROLLERS", "networks,claims")
    assert settings().location == "eu-west-1"
    assert settings().controllers == ("networks", "claims")
    assert settings("--location=us-central-1").location == "us-central-1"


def test_the_defaults_are_those_of_the_specification() -> None:
    """Claims.md."""
    chosen = settings("--location=x")
    assert chosen.project_label == "networking.datumapis.com/project"
    assert chosen.network_class == "network-ipv6"
    assert chosen.subnet_class("IPv6") == "subnet-ipv6"
    assert chosen.subnet_class("IPv4") == "subnet-ipv4"


def test_a_tap_cannot_serve_a_plain_pod(capsys: pytest.CaptureFixture[str]) -> None:
    """Compute.md: with attachment mode Hypervisor the Pod provider refuses to start."""
    with pytest.raises(SystemExit):
        settings("--location=x", "--attachment-mode=Hypervisor")
    assert "--pod-provider=false" in capsys.readouterr().err
    assert settings("--location=x", "--attachment-mode=Hypervisor", "--pod-provider=false").pod_provider is False
