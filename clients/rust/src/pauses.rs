use std::time::Duration;

use crate::call::Deadline;
use crate::errors::{Error, Outcome};

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(100);

/// Pauses between tries. The longest that one can be doubles, and each is between half and all
/// of that, so that clients which lost the same node do not come back together.
pub(crate) struct Pauses {
    /// How long the next one can be.
    pub delay: Duration,
    tries: usize, // since the last pause, each at another node
}

impl Pauses {
    pub fn new() -> Pauses {
        Pauses { delay: FIRST, tries: 0 }
    }

    /// Pauses only when so many nodes have been tried since the last pause.
    pub async fn between(&mut self, width: usize) {
        self.tries += 1;
        if self.tries >= width {
            self.wait().await;
        }
    }

    pub async fn wait(&mut self) {
        let pause = self.delay.mul_f64(0.5 + 0.5 * fastrand::f64());
        self.delay = (2 * self.delay).min(LONGEST);
        self.tries = 0;
        tokio::time::sleep(pause).await;
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

    #[tokio::test]
    async fn pauses_grow_to_a_bound() {
        let mut pauses = Pauses::new();
        for _ in 0..5 {
            pauses.wait().await;
        }
        assert_eq!(pauses.delay, LONGEST);
    }
}
