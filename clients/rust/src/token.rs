use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tonic::metadata::{Ascii, MetadataValue};

use crate::errors::{Error, Outcome};
use crate::reason::Reason;

/// A file is read again for a call this long after it was read.
const READ_AGAIN: Duration = Duration::from_secs(1);

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// What a client shows to say who it is: a text that stays the same (`"...".into()`), or what a
/// function or a file gives.
#[derive(Clone)]
pub struct Token(Source);

#[derive(Clone)]
enum Source {
    Text(String),
    /// Its argument: past what is kept of the token.
    Function(Arc<dyn Fn(bool) -> Result<String, Error> + Send + Sync>),
}

impl Token {
    /// A function that is called for the token of each call and stream, by whichever task makes it.
    /// It must return soon. Where it fails, nothing is sent, and the call is tried again as if no
    /// node could be reached. It is called again when a node refuses a token, which may have expired
    /// while a stream was open: with another one producers, reads and calls continue.
    pub fn from_fn(give: impl Fn() -> Result<String, Failed> + Send + Sync + 'static) -> Token {
        Token(Source::Function(Arc::new(move |_| {
            let failed =
                |e| Error::unreachable(Outcome::NotDone, format!("the function that gives the token failed: {e}"));
            give().map_err(failed)
        })))
    }

    /// A token that is kept in a file, without the space around it. The file is read again while
    /// calls are made, at most once a second, and when a node refuses the token, so that it can be
    /// replaced. Where it cannot be read any more, or is empty as it is being written, the one read last is shown; a call fails with
    /// [`Reason::Invalid`](crate::Reason::Invalid) if none has been read.
    pub fn file(path: impl Into<PathBuf>) -> Token {
        let path = path.into();
        let read: Mutex<Option<(String, Instant)>> = Mutex::new(None);
        Token(Source::Function(Arc::new(move |anew| {
            let mut read = read.lock().expect("not poisoned");
            let known = match &*read {
                Some((token, at)) if !anew && at.elapsed() < READ_AGAIN => return Ok(token.clone()),
                known => known.as_ref().map(|(token, _)| token.clone()),
            };
            let token = match (std::fs::read_to_string(&path), known) {
                (Ok(text), Some(token)) if text.trim().is_empty() => token,
                (Ok(text), _) => text.trim().to_string(),
                (Err(_), Some(token)) => token,
                (Err(e), None) => return Err(Error::invalid(format!("the token cannot be read: {e}"))),
            };
            *read = Some((token.clone(), Instant::now()));
            Ok(token)
        })))
    }

    /// Fails if it is a text that no header can carry.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Source::Text(text) => header(text).map(drop),
            Source::Function(_) => Ok(()),
        }
    }

    /// The value of the header that shows it; anew: past what is kept of it.
    pub(crate) fn header(&self, anew: bool) -> Result<Header, Error> {
        match &self.0 {
            Source::Text(text) => header(text),
            Source::Function(give) => header(&give(anew)?),
        }
    }

    /// The header to show after the one that was shown has been refused; none: there is no other.
    pub(crate) fn another(&self, shown: &Header) -> Option<Header> {
        self.header(true).ok().filter(|header| header != shown)
    }
}

pub(crate) type Header = MetadataValue<Ascii>;

/// The token with which a stream was opened that is opened again when it ends.
pub(crate) struct Shown {
    token: Option<Token>,
    header: Mutex<Option<Header>>,
    // It was opened again for another token, and no node has said since that it knows that one.
    renewed: AtomicBool,
}

impl Shown {
    pub fn new(token: Option<Token>) -> Shown {
        Shown { token, header: Mutex::default(), renewed: AtomicBool::new(false) }
    }

    /// The header of the stream that is opened now.
    pub fn header(&self) -> Result<Option<Header>, Error> {
        let header = self.token.as_ref().map(|token| token.header(false)).transpose()?;
        *self.header.lock().expect("not poisoned") = header.clone();
        Ok(header)
    }

    /// Notes that the token is good.
    pub fn progressed(&self) {
        self.renewed.store(false, Ordering::Relaxed);
    }

    /// What the failure of the stream means: a token that was refused is one to try again after if
    /// there is another, but not twice in a row. What is final reaches the application, and what
    /// it does next may be tried with another token again.
    pub fn failure(&self, failure: Error) -> Error {
        if *failure.reason() == Reason::Unreachable {
            return failure;
        }
        let renewed = self.renewed.swap(false, Ordering::Relaxed);
        if *failure.reason() != Reason::Unauthenticated || renewed {
            return failure;
        }
        let shown = self.header.lock().expect("not poisoned").clone();
        match (&self.token, shown) {
            (Some(token), Some(shown)) if token.another(&shown).is_some() => {
                self.renewed.store(true, Ordering::Relaxed);
                failure.with_retry()
            }
            _ => failure,
        }
    }
}

/// The error does not show the token.
fn header(token: &str) -> Result<Header, Error> {
    let wrong = "the token is empty, or has a character that no header can carry, such as a line break at its end";
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Error::invalid(wrong));
    }
    format!("Bearer {token}").parse().map_err(|_| Error::invalid(wrong))
}

impl From<&str> for Token {
    fn from(text: &str) -> Token {
        Token(Source::Text(text.to_string()))
    }
}

impl From<String> for Token {
    fn from(text: String) -> Token {
        Token(Source::Text(text))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(token: &Token) -> String {
        token.header(false).unwrap().to_str().unwrap().to_string()
    }

    #[test]
    fn a_function_gives_the_token_of_each_call() {
        let tokens = Mutex::new(vec!["line\nbreak", "two", "one"]);
        let token = Token::from_fn(move || tokens.lock().unwrap().pop().map(String::from).ok_or("no more".into()));
        assert_eq!([shown(&token), shown(&token)], ["Bearer one", "Bearer two"]);
        let error = token.header(false).unwrap_err();
        assert_eq!(error.reason(), &Reason::Invalid);
        assert!(!error.message().contains("break\"") && !error.message().contains("line\n"), "{error}");
        let error = token.header(false).unwrap_err();
        assert_eq!(
            (error.reason(), error.outcome(), error.retryable()),
            (&Reason::Unreachable, Outcome::NotDone, true)
        );
    }

    #[test]
    fn a_token_in_a_file_is_shown_without_its_line_break_and_outlives_the_file() {
        let path = std::env::temp_dir().join(format!("strandline-token-{}", std::process::id()));
        let token = Token::file(&path);
        assert_eq!(token.header(false).unwrap_err().reason(), &Reason::Invalid);
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(shown(&token), "Bearer one");
        std::fs::write(&path, "two\n").unwrap();
        assert_eq!(shown(&token), "Bearer one");
        assert_eq!(token.header(true).unwrap(), "Bearer two");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(shown(&token), "Bearer two");
        assert_eq!(token.header(true).unwrap(), "Bearer two");
    }

    #[test]
    fn a_token_that_is_refused_is_replaced_once() {
        let tokens = Mutex::new(vec!["d", "d", "d", "c", "b", "a"]);
        let give = move || tokens.lock().unwrap().pop().map(String::from).ok_or("no more".into());
        let stream = Shown::new(Some(Token::from_fn(give)));
        let refused = || Error::new(Reason::Unauthenticated, "no");
        assert!(!stream.failure(refused()).again(), "nothing is shown yet");
        assert_eq!(stream.header().unwrap().unwrap(), "Bearer a");
        assert!(stream.failure(Error::new(Reason::Busy, "").with_retry()).again());
        let renewed = stream.failure(refused()); // another one is b
        assert!(renewed.again() && renewed.renewed() && !renewed.elsewhere());
        assert_eq!(stream.header().unwrap().unwrap(), "Bearer c");
        assert!(!stream.failure(Error::new(Reason::Unreachable, "")).again());
        assert!(!stream.failure(refused()).again(), "nothing has come since");
        assert!(stream.failure(refused()).again()); // another one is d
        assert!(!stream.failure(Error::new(Reason::Full, "")).again());
        assert_eq!(stream.header().unwrap().unwrap(), "Bearer d");
        assert!(!stream.failure(refused()).again(), "there is no other token");
        assert!(!Shown::new(None).failure(refused()).again(), "no token is shown");
    }

    #[test]
    fn a_text_that_no_header_can_carry_is_refused() {
        for wrong in ["", "secret\n", " secret", "sec ret", "secr\u{e9}t"] {
            assert_eq!(Token::from(wrong).check().unwrap_err().reason(), &Reason::Invalid, "{wrong:?}");
        }
    }
}
