"""Who has waited for long asks less often."""

from strandline.peers import Pauses


def test_pauses_grow_with_the_time_waited_to_a_bound() -> None:
    # The queries of a thousand clients that all wait would otherwise take the processors that nodes
    # need to find each other.
    pauses, began, now, asked = Pauses(), 1000.0, 1000.0, 0
    while now - began < 60:
        pause = pauses._draw(now)
        assert 0 < pause <= min(max(0.1, (now - began) / 10), 1)
        now, asked = now + pause, asked + 1
        if asked == 12:
            assert now - began < 1.2, "at first it asks often"
    assert asked < 150
