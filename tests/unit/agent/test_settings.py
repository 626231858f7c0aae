"""What the agent must be told, and how it says what is missing."""

import re
from ipaddress import IPv6Network
from pathlib import Path

import pytest

from netclaim.kube.process import parse
from node_agent.settings import Settings
from node_agent.startup import StartupError, find_node, state_lock

GIVEN = ["--node-name", "node-a", "--srv6-locator", "fd5f:0:0:a::/64", "--underlay-interface", "up0"]


def test_the_block_of_all_locators_is_the_32_around_this_one_unless_it_is_given() -> None:
    assert str(parse(Settings, GIVEN, program="node-agent").locator_block) == "fd5f::/32"
    given = parse(Settings, [*GIVEN, "--srv6-locator-block", "fd5f:0:0::/48"], program="node-agent")
    assert (str(given.locator_block), given.leader_elect) == ("fd5f::/48", False)


def test_a_node_takes_the_locator_of_the_block_that_follows_from_its_name() -> None:
    """A DaemonSet says the same to every node; the locator is known with the API server away (T27)."""
    taken = {
        name: parse(
            Settings,
            ["--node-name", name, "--srv6-locator-block", "fd5f::/32", "--underlay-interface", "up0"],
            program="node-agent",
        ).locator
        for name in ("node1", "node2", "node3")
    }
    assert {str(name): str(taken[name]) for name in taken} == {
        "node1": "fd5f:0:ca12:f31b::/64",
        "node2": "fd5f:0:15b1:8a72::/64",
        "node3": "fd5f:0:3b5b:b1c6::/64",
    }
    assert all(one.prefixlen == 64 and one.subnet_of(IPv6Network("fd5f::/32")) for one in taken.values())
    assert str(parse(Settings, GIVEN, program="node-agent").locator) == "fd5f:0:0:a::/64"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([*GIVEN[:2], *GIVEN[4:]], r"--srv6-locator is required"),
        ([*GIVEN[:2], *GIVEN[4:], "--srv6-locator-block", "fd5f::/48"], r"too small to take a locator from"),
        (GIVEN[2:], r"--node-name is required"),
        ([*GIVEN, "--srv6-locator", "fd5f::/48"], r"--srv6-locator must be a /64"),
        ([*GIVEN, "--srv6-locator-block", "fd60::/32"], r"lies outside --srv6-locator-block fd60::/32"),
        ([*GIVEN, "--routing", "bridges"], r"--routing"),
    ],
)
def test_a_wrong_or_missing_flag_is_named_and_ends_with_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(Settings, argv, program="node-agent")
    assert caught.value.code == 2
    assert re.search(rf"^node-agent: error: .*{message}", capsys.readouterr().err, re.MULTILINE)


async def test_everything_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    """node-agent.md: it checks at start that it can do its work and says each thing that is missing."""
    (tmp_path / "file").write_text("")
    argv = [*GIVEN[:-1], "absent0", "--state-dir", str(tmp_path / "file" / "state")]
    with pytest.raises(StartupError) as caught:
        await find_node(parse(Settings, argv, program="node-agent"))
    said = "\n".join(caught.value.problems)
    assert "--underlay-interface absent0" in said
    assert "--next-hop" in said
    assert "--state-dir" in said


def test_two_agents_never_share_a_state_folder(tmp_path: Path) -> None:
    with state_lock(tmp_path), pytest.raises(StartupError, match="another node agent"), state_lock(tmp_path):
        pass
    with state_lock(tmp_path):
        pass
