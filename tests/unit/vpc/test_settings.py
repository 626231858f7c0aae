"""The flags of the VPC controller (R30)."""

import pytest

from netclaim.kube.process import parse
from vpc_controller.settings import Settings


@pytest.mark.parametrize("mode", ["Netns", "Hypervisor"])
def test_the_attachment_mode_is_taken_as_said(mode: str) -> None:
    assert parse(Settings, ["--attachment-mode", mode], program="vpc-controller").attachment_mode == mode


@pytest.mark.parametrize("argv", [[], ["--attachment-mode", "Veth"]])
def test_without_an_attachment_mode_the_program_ends_and_says_so(
    argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R30: required, no default: a virtual machine could not use the device that a container gets."""
    monkeypatch.delenv("NETCLAIM_ATTACHMENT_MODE", raising=False)
    with pytest.raises(SystemExit) as ended:
        parse(Settings, argv, program="vpc-controller")
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("vpc-controller: error: --attachment-mode")
    assert "Netns" in told
    assert "Hypervisor" in told
