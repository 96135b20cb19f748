use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tonic::metadata::{Ascii, MetadataValue};

use crate::errors::{Error, Outcome};

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
    Function(Arc<dyn Fn() -> Result<String, Error> + Send + Sync>),
}

impl Token {
    /// A function that is called for the token of each call and stream, by whichever task makes it.
    /// It must return soon. Where it fails, nothing is sent, and the call is tried again as if no
    /// node could be reached.
    pub fn from_fn(give: impl Fn() -> Result<String, Failed> + Send + Sync + 'static) -> Token {
        Token(Source::Function(Arc::new(move || {
            let failed =
                |e| Error::unreachable(Outcome::NotDone, format!("the function that gives the token failed: {e}"));
            give().map_err(failed)
        })))
    }

    /// A token that is kept in a file, without the space around it. The file is read again while
    /// calls are made, at most once a second, so that a token can be replaced. Where it cannot be
    /// read any more, or is empty as it is being written, the one read last is shown; a call fails with
    /// [`Reason::Invalid`](crate::Reason::Invalid) if none has been read.
    pub fn file(path: impl Into<PathBuf>) -> Token {
        let path = path.into();
        let read: Mutex<Option<(String, Instant)>> = Mutex::new(None);
        Token(Source::Function(Arc::new(move || {
            let mut read = read.lock().expect("not poisoned");
            let known = match &*read {
                Some((token, at)) if at.elapsed() < READ_AGAIN => return Ok(token.clone()),
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

    /// The value of the header that shows it.
    pub(crate) fn header(&self) -> Result<MetadataValue<Ascii>, Error> {
        match &self.0 {
            Source::Text(text) => header(text),
            Source::Function(give) => header(&give()?),
        }
    }
}

/// The error does not show the token.
fn header(token: &str) -> Result<MetadataValue<Ascii>, Error> {
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
    use crate::reason::Reason;

    fn shown(token: &Token) -> String {
        token.header().unwrap().to_str().unwrap().to_string()
    }

    #[test]
    fn a_function_gives_the_token_of_each_call() {
        let tokens = Mutex::new(vec!["line\nbreak", "two", "one"]);
        let token = Token::from_fn(move || tokens.lock().unwrap().pop().map(String::from).ok_or("no more".into()));
        assert_eq!([shown(&token), shown(&token)], ["Bearer one", "Bearer two"]);
        let error = token.header().unwrap_err();
        assert_eq!(error.reason(), &Reason::Invalid);
        assert!(!error.message().contains("break\"") && !error.message().contains("line\n"), "{error}");
        let error = token.header().unwrap_err();
        assert_eq!(
            (error.reason(), error.outcome(), error.retryable()),
            (&Reason::Unreachable, Outcome::NotDone, true)
        );
    }

    #[test]
    fn a_token_in_a_file_is_shown_without_its_line_break_and_outlives_the_file() {
        let path = std::env::temp_dir().join(format!("strandline-token-{}", std::process::id()));
        let token = Token::file(&path);
        assert_eq!(token.header().unwrap_err().reason(), &Reason::Invalid);
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(shown(&token), "Bearer one");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(shown(&token), "Bearer one");
    }

    #[test]
    fn a_text_that_no_header_can_carry_is_refused() {
        for wrong in ["", "secret\n", " secret", "sec ret", "secr\u{e9}t"] {
            assert_eq!(Token::from(wrong).check().unwrap_err().reason(), &Reason::Invalid, "{wrong:?}");
        }
    }
}
