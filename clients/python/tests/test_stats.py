"""What producers count."""

import random

from strandline import Histogram, Stats


def test_a_quantile_is_at_most_an_eighth_too_high() -> None:
    histogram = Histogram()
    assert (histogram.mean, histogram.quantile(0.5)) == (0.0, 0)
    drawn = sorted(random.Random(7).randrange(1 << 40) >> (n % 40) for n in range(1000))
    for value in drawn:
        histogram._record(value)
    assert (histogram.count, histogram.sum) == (1000, sum(drawn))
    for q in (0.0, 0.5, 0.9, 0.99, 1.0):
        exact = drawn[min(999, int(q * 1000))]
        assert exact <= histogram.quantile(q) <= exact + exact / 8


def test_statistics_do_not_change_once_they_are_given() -> None:
    stats = Stats()
    stats._appended(3, 100, 0.002)
    given = stats._snapshot()
    stats._appended(1, 10, 0.001)
    assert (given.requests, given.records, given.bytes, given.latency.quantile(1)) == (1, 3, 100, 2047)
    assert (stats.requests, stats.records, stats.bytes) == (2, 4, 110)
