use std::time::{Duration, Instant};

use crate::call::Deadline;
use crate::errors::{Error, Outcome};

const FIRST: Duration = Duration::from_millis(10);
const LAST: Duration = Duration::from_millis(100);
const SLOWEST: Duration = Duration::from_secs(1);

/// Pauses between tries. The longest that one can be doubles, and later is a tenth of the time
/// since the first; each is between half and all of that, so that clients which lost the same
/// node do not come back together. So a client that has lost its leader soon finds the next one,
/// and a thousand that have waited for long do not take the processors that nodes need to find
/// each other.
pub(crate) struct Pauses {
    /// How long the next one can be.
    pub delay: Duration,
    began: Option<Instant>, // the first pause
    tries: usize,           // since the last pause, each at another node
}

impl Pauses {
    pub fn new() -> Pauses {
        Pauses { delay: FIRST, began: None, tries: 0 }
    }

    /// Pauses only when so many nodes have been tried since the last pause.
    pub async fn between(&mut self, width: usize) {
        self.tries += 1;
        if self.tries >= width {
            self.wait().await;
        }
    }

    pub async fn wait(&mut self) {
        let pause = self.draw(Instant::now());
        self.tries = 0;
        tokio::time::sleep(pause).await;
    }

    /// How long a pause that begins now is.
    fn draw(&mut self, now: Instant) -> Duration {
        let waited = now - *self.began.get_or_insert(now);
        let pause = self.delay.mul_f64(0.5 + 0.5 * fastrand::f64());
        self.delay = (2 * self.delay).min(LAST.max(waited / 10)).min(SLOWEST);
        pause
    }

    /// Pauses until the deadline at most. It is an error that it has passed.
    pub async fn within(&mut self, width: usize, deadline: Deadline) -> Result<(), Error> {
        let pause = async {
            self.between(width).await;
            Ok(())
        };
        deadline.bound(Outcome::NotDone, pause).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The queries of a thousand clients that all wait would otherwise take the processors that
    // nodes need to find each other.
    #[test]
    fn pauses_grow_with_the_time_waited_to_a_bound() {
        let (mut pauses, began) = (Pauses::new(), Instant::now());
        let (mut asked, mut waited) = (0, Duration::ZERO);
        while waited < Duration::from_secs(60) {
            let pause = pauses.draw(began + waited);
            assert!(pause > Duration::ZERO && pause <= LAST.max(waited / 10).min(SLOWEST));
            waited += pause;
            asked += 1;
            assert!(asked != 12 || waited < 12 * LAST, "at first it asks often");
        }
        assert!(asked < 150);
    }
}
