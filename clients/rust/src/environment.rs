//! How to connect, by the variables of the environment that the command line takes too.
use std::path::PathBuf;

use crate::client::ClientOptions;
use crate::encryption::TlsFiles;
use crate::errors::Error;
use crate::token::Token;

const DEFAULT: &str = "127.0.0.1:7171";

/// The addresses and options that variables name.
pub(crate) fn environment(variable: impl Fn(&str) -> Option<String>) -> Result<(Vec<String>, ClientOptions), Error> {
    let value = |name: &str| variable(&format!("STRANDLINE_{name}")).filter(|value| !value.is_empty());
    let insecure = match value("INSECURE").unwrap_or_default().to_lowercase().as_str() {
        "1" | "t" | "true" | "yes" => true,
        "" | "0" | "f" | "false" | "no" => false,
        other => {
            return Err(Error::invalid(format!("STRANDLINE_INSECURE is {other:?}, and has to be true or false")));
        }
    };
    let path = |name: &str| value(name).map(PathBuf::from);
    let files = TlsFiles { authorities: path("TLS_CA"), certificate: path("TLS_CERT"), key: path("TLS_KEY") };
    let tls_files = (files != TlsFiles::default()).then_some(files);
    let token = match value("TOKEN_FILE") {
        Some(path) => Some(Token::file(path)),
        None => value("TOKEN").map(|token| token.trim().into()),
    };
    let addresses = value("SERVER").unwrap_or_else(|| DEFAULT.into());
    let addresses = addresses.split(',').map(|address| address.trim().to_string()).collect();
    Ok((addresses, ClientOptions { tls_files, insecure, token, ..Default::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    fn of(variables: &[(&str, &str)]) -> Result<(Vec<String>, ClientOptions), Error> {
        environment(|name| {
            let found = variables.iter().find(|(known, _)| name == format!("STRANDLINE_{known}"));
            found.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn the_environment_says_how_to_connect() {
        let (addresses, options) = of(&[]).unwrap();
        assert_eq!(addresses, ["127.0.0.1:7171"]);
        assert!(!options.insecure && options.tls_files.is_none() && options.token.is_none());
        let (addresses, options) =
            of(&[("SERVER", "one:1, two:2"), ("INSECURE", "True"), ("TOKEN", "secret\n")]).unwrap();
        assert_eq!(addresses, ["one:1", "two:2"]);
        assert!(options.insecure);
        assert_eq!(options.token.unwrap().header(false).unwrap(), "Bearer secret");
    }

    #[test]
    fn what_is_wrong_in_the_environment_is_named() {
        let error = of(&[("INSECURE", "maybe")]).err().expect("it is refused");
        assert_eq!(error.reason(), &Reason::Invalid);
        assert!(error.message().contains("STRANDLINE_INSECURE"), "{error}");
        for name in ["STRANDLINE_TLS_CA", "STRANDLINE_TLS_KEY"] {
            let variable = |asked: &str| (asked == name).then(|| "/nowhere/file".to_string());
            let error = crate::Client::from_variables(variable, |_| ()).unwrap_err();
            assert_eq!(error.reason(), &Reason::Invalid);
            assert!(error.message().contains("/nowhere/file"), "{error}");
        }
    }
}
