use std::collections::BTreeMap;
use std::time::Duration;

/// Counts values in buckets that are an eighth of a power of two wide: a quantile is at most an
/// eighth too high.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many values.
    pub count: u64,
    /// Of the values.
    pub sum: u64,
    buckets: BTreeMap<u64, u64>, // by their highest values
}

impl Histogram {
    fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum += value;
        *self.buckets.entry(top(value)).or_default() += 1;
    }

    /// 0 if nothing was counted.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// A value that the share `q` (0 to 1) of the counted ones do not exceed; 0 if nothing was
    /// counted.
    pub fn quantile(&self, q: f64) -> u64 {
        let mut rank = (q * self.count as f64) as u64;
        for (top, n) in &self.buckets {
            if *n > rank {
                return *top;
            }
            rank -= n;
        }
        self.buckets.last_key_value().map_or(0, |(top, _)| *top)
    }
}

/// The highest value of a bucket: 0 to 15 have buckets of their own, and then eight values of the
/// highest four bits share each power of two.
fn top(value: u64) -> u64 {
    if value < 16 {
        return value;
    }
    value | ((1 << (60 - value.leading_zeros())) - 1)
}

/// What a producer has done and is doing. Bytes are about those on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests in the window without an answer.
    pub in_flight_requests: usize,
    /// Their records.
    pub in_flight_records: usize,
    /// Their bytes.
    pub in_flight_bytes: usize,
    /// All without an answer, which [`ProducerOptions::buffer_bytes`](crate::ProducerOptions::buffer_bytes) bounds.
    pub buffered_bytes: usize,
    /// Records that failed.
    pub failed: u64,
    /// Requests that were sent again.
    pub resent: u64,
    /// Streams that were opened.
    pub streams: u64,
    /// Records of each request that was appended: its count is how many requests, its sum how many
    /// records.
    pub request_records: Histogram,
    /// Bytes of each request that was appended.
    pub request_bytes: Histogram,
    /// Microseconds from when a request was first sent to its answer.
    pub latency_micros: Histogram,
}

impl Stats {
    pub(crate) fn appended(&mut self, records: usize, bytes: usize, took: Duration) {
        self.request_records.record(records as u64);
        self.request_bytes.record(bytes as u64);
        self.latency_micros.record(took.as_micros() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_at_most_an_eighth_too_high() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.mean(), histogram.quantile(0.5)), (0.0, 0));
        let mut values: Vec<u64> = (0..1000).map(|n| (n * 7919 % 1000 + 1) << (n % 40)).collect();
        values.iter().for_each(|value| histogram.record(*value));
        values.sort_unstable();
        assert_eq!((histogram.count, histogram.sum), (1000, values.iter().sum()));
        for (q, n) in [(0.0, 0), (0.5, 500), (0.9, 900), (0.99, 990), (1.0, 999)] {
            let (exact, found) = (values[n], histogram.quantile(q));
            assert!(exact <= found && found <= exact + exact / 8, "{q}: {exact} {found}");
        }
        assert_eq!(top(u64::MAX), u64::MAX);
    }
}
