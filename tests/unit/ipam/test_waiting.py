"""Who is served first when something becomes free."""

from nso.ipam.waiting import TURN, Waiting, for_block, for_project, for_space

POOL = ("project", "pool")
SPACE = for_space(POOL, "")


def waiting(*names: str) -> Waiting:
    """Claims that wait for a block, in the order of their age whatever the order of their coming."""
    found = Waiting()
    for name in reversed(names):
        found.put(("project", name), (f"t{names.index(name)}", name), {SPACE, for_project("project")})
    return found


def test_the_oldest_waiters_are_woken_first_and_no_more_than_there_are_blocks() -> None:
    """T24: oldest waiters of a class are served first."""
    assert waiting("a", "b", "c").wake(SPACE, 0.0, 2) == [("project", "a"), ("project", "b")]


def test_a_second_free_block_wakes_the_next_one() -> None:
    """Two blocks freed one after the other serve two claims, not one twice."""
    queue = waiting("a", "b")
    assert queue.wake(SPACE, 0.0, 1) == [("project", "a")]
    assert queue.wake(SPACE, 0.1, 1) == [("project", "b")]
    assert queue.wake(SPACE, 0.2, 1) == []


def test_a_younger_claim_stands_behind_those_who_wait() -> None:
    """A newcomer does not take the block that an older claim was just woken for."""
    queue = waiting("a", "b")
    queue.wake(SPACE, 0.0, 1)
    assert queue.ahead(SPACE, ("t9", "new"), ("project", "new"), 0.1) == 2
    assert queue.ahead(SPACE, ("t0", "a"), ("project", "a"), 0.1) == 0


def test_a_claim_that_does_not_come_for_its_turn_holds_nobody_up() -> None:
    """T24: one bad object never blocks the others."""
    queue = waiting("bad", "b")
    queue.wake(SPACE, 0.0, 1)
    assert queue.ahead(SPACE, ("t1", "b"), ("project", "b"), TURN) == 0
    assert queue.wake(SPACE, TURN, 1) == [("project", "b")]
    queue.put(("project", "bad"), ("t0", "bad"), {SPACE})
    assert queue.ahead(SPACE, ("t1", "b"), ("project", "b"), TURN) == 1


def test_a_waiter_for_one_address_is_woken_by_that_block_only() -> None:
    """Spec "Exhaustion and waking"."""
    queue = waiting("a")
    queue.put(("project", "static"), ("t0", "static"), {for_block(POOL, "", "0a000001")})
    assert queue.wake(SPACE, 0.0) == [("project", "a")]
    assert queue.wake(for_block(POOL, "", "0a000002"), 0.0) == []
    assert queue.wake(for_block(POOL, "", "0a000001"), 0.0) == [("project", "static")]


def test_one_that_was_served_leaves_every_queue() -> None:
    """No queue keeps a claim that waits no longer."""
    queue = waiting("a", "b")
    queue.wake(SPACE, 0.0)
    queue.put(("project", "a"), ("t0", "a"), set())
    queue.remove(("project", "b"))
    queue.remove(("project", "b"))
    assert len(queue) == 0
    assert queue.all_in("project") == []
    assert queue.wake(SPACE, 10.0) == []
