"""The flags of the webhook: for whom its certificate is made, and what is refused."""

from datetime import timedelta

import pytest

from netclaim.kube.process import parse
from webhook.settings import Settings


def parsed(*argv: str) -> Settings:
    return parse(Settings, list(argv), program="netclaim-webhook")


def test_behind_a_service_the_certificate_is_made_for_all_of_its_names() -> None:
    wanted = parsed("--service-name", "hook", "--system-namespace", "net", "--dns-names", "a.example,b.example").wanted
    assert wanted.dns_names == (
        "a.example",
        "b.example",
        "hook",
        "hook.net",
        "hook.net.svc",
        "hook.net.svc.cluster.local",
    )
    assert wanted.addresses == ()


@pytest.mark.parametrize(
    ("argv", "addresses"),
    [
        (["--listen", "127.0.0.1:9443"], ("127.0.0.1",)),
        (["--listen", "[::1]:9443"], ("::1",)),
        (["--listen", "0.0.0.0:9443"], ("127.0.0.1",)),
        (["--ip", "10.0.0.1,2001:DB8::0:1"], ("10.0.0.1", "2001:db8::1")),
    ],
)
def test_as_a_local_process_the_certificate_is_made_for_its_address(
    argv: list[str], addresses: tuple[str, ...]
) -> None:
    assert parsed(*argv).wanted.addresses == addresses


def test_lives_are_seconds_or_durations() -> None:
    wanted = parsed("--certificate-lifetime", "3600", "--authority-lifetime", "P2D").wanted
    assert (wanted.lifetime, wanted.authority_lifetime) == (timedelta(hours=1), timedelta(days=2))


def test_no_replica_ever_waits_for_a_lease() -> None:
    """A replica that was not elected would not serve."""
    assert parsed("--leader-elect", "true").leader_elect is False


@pytest.mark.parametrize(
    "argv",
    [
        ["--listen", "9443"],
        ["--listen", "host:99999"],
        ["--ip", "10.0.0.300"],
        ["--node-selector", "linux"],
        ["--certificate-lifetime", "1"],
    ],
)
def test_a_flag_that_cannot_be_used_is_named(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*argv)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"netclaim-webhook: error: {argv[0]}")
