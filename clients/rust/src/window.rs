use std::collections::VecDeque;

use crate::errors::Outcome;
use crate::request::{Request, State};

// The automatic window. Few small requests at a time make callers that wait for each append meet
// in one; many large ones fill a long link.
const MANY_REQUESTS: usize = 64;
const FEW_REQUESTS: usize = 4;
const LARGE_REQUEST: usize = 64 << 10;

/// The requests in flight, oldest first: those that were put, or are just being put, on a stream
/// and have no answer. A request enters before its first byte leaves.
pub(crate) struct Window {
    pub flight: VecDeque<Request>,
    /// How many of them are on the stream that is open now.
    pub sent: usize,
    /// Nothing more is put on that stream.
    pub held: bool,
    bytes: usize,
    requests: Option<usize>,
    most: usize,
}

impl Window {
    /// None: the automatic window. The second limit is in bytes.
    pub fn new(requests: Option<usize>, most: usize) -> Window {
        Window { flight: VecDeque::new(), sent: 0, held: false, bytes: 0, requests, most }
    }

    /// Reports whether a request of that size may be sent now. One that is larger than the
    /// window goes alone.
    pub fn admits(&self, size: usize) -> bool {
        let n = self.flight.len();
        if self.held {
            return false;
        }
        if n == 0 {
            return true;
        }
        if n >= self.requests.unwrap_or(MANY_REQUESTS) || self.bytes + size > self.most {
            return false;
        }
        n < self.requests.unwrap_or(FEW_REQUESTS) || size >= LARGE_REQUEST
    }

    pub fn push(&mut self, request: Request) {
        self.bytes += request.size;
        self.flight.push_back(request);
    }

    /// The request that the next answer is for.
    pub fn oldest(&mut self) -> Option<&mut Request> {
        if self.sent > 0 { self.flight.front_mut() } else { None }
    }

    pub fn pop(&mut self) -> Option<Request> {
        let request = self.flight.pop_front()?;
        self.bytes -= request.size;
        self.sent = self.sent.saturating_sub(1);
        Some(request)
    }

    /// For a stream that has ended: all has to be sent again, but for what has failed already.
    pub fn reset(&mut self) {
        self.flight.retain(|r| r.state != State::Failed);
        self.sent = 0;
        self.held = false;
        self.bytes = self.flight.iter().map(|r| r.size).sum();
    }

    /// Removes what is not on the stream, and marks the rest as failed: their answers still come.
    pub fn fail(&mut self) {
        self.flight.truncate(self.sent);
        for request in &mut self.flight {
            request.state = State::Failed;
        }
        self.bytes = self.flight.iter().map(|r| r.size).sum();
    }

    /// What has not failed.
    pub fn waiting(&self) -> impl DoubleEndedIterator<Item = &Request> {
        self.flight.iter().filter(|r| r.state != State::Failed)
    }

    /// The sequence below which all answers are there.
    pub fn low_water(&self) -> u64 {
        self.waiting().next().map_or(0, |r| r.place.next)
    }

    /// Reports whether a request may be in the log by an earlier sending.
    pub fn doubtful(&self) -> bool {
        self.waiting().any(|r| r.outcome != Outcome::NotDone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u64, size: usize) -> Request {
        let mut request = Request::new(id);
        request.size = size;
        request.place.next = id;
        request.state = State::InFlight;
        request
    }

    #[test]
    fn there_is_room_for_few_small_requests_and_for_many_large_ones() {
        let mut window = Window::new(None, 16 << 20);
        for id in 0..4 {
            assert!(window.admits(100));
            window.push(request(id, 100));
        }
        assert!(!window.admits(100));
        assert!(window.admits(64 << 10));
        assert!(!window.admits(16 << 20));
    }

    #[test]
    fn nothing_is_put_on_a_stream_that_is_held() {
        let mut window = Window::new(None, 100);
        window.held = true;
        assert!(!window.admits(1));
        window.reset();
        assert!(window.admits(1));
    }

    #[test]
    fn what_has_failed_is_not_sent_again_and_its_answers_are_waited_for() {
        let mut window = Window::new(Some(3), 100);
        for id in 0..3 {
            window.push(request(id, 30));
        }
        assert!(!window.admits(1));
        window.sent = 2;
        window.fail();
        assert_eq!(window.flight.iter().map(|r| r.state).collect::<Vec<_>>(), [State::Failed; 2]);
        assert!(window.admits(40) && !window.admits(41));
        window.push(request(7, 1));
        assert_eq!(window.low_water(), 7);
        window.reset();
        assert_eq!((window.flight.len(), window.sent), (1, 0));
        assert!(window.pop().is_some() && window.pop().is_none());
    }
}
