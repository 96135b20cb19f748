//! Starts a server of Strandline for a test: see [`Server`].
#![warn(missing_docs)]

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio, id};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a server may take until it serves.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// A cluster of one node on free ports of this machine, in a process of its own.
///
/// Its data are in a temporary folder. Dropping it kills the process and removes them.
///
/// Its program is that of the variable `STRANDLINE`, or else `strandline` in `PATH`. Other variables
/// `STRANDLINE_*` do not apply to it.
///
/// ```no_run
/// let server = strandline_testing::Server::start()?;
/// println!("{}", server.address());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Server {
    address: String,
    http: String,
    _process: Process, // ends before its data
    _data: Folder,
}

impl Server {
    /// Starts a server, and returns when it serves. It blocks for about a second.
    ///
    /// # Errors
    ///
    /// If there is no program, [`io::ErrorKind::NotFound`]; if it does not start, what it has written.
    pub fn start() -> io::Result<Server> {
        Server::with_flags([] as [&str; 0])
    }

    /// As [`Server::start`], with more flags of `strandline serve`.
    ///
    /// # Errors
    ///
    /// Those of [`Server::start`].
    pub fn with_flags<F: Into<OsString>>(flags: impl IntoIterator<Item = F>) -> io::Result<Server> {
        let named = env::var_os("STRANDLINE").filter(|named| !named.is_empty());
        Server::of(&named.unwrap_or_else(|| "strandline".into()), flags.into_iter().map(Into::into).collect())
    }

    /// Where clients connect to: HOST:PORT.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// HOST:PORT of JSON over HTTP, metrics and health.
    pub fn http(&self) -> &str {
        &self.http
    }

    fn of(program: &OsString, flags: Vec<OsString>) -> io::Result<Server> {
        let data = Folder::create()?;
        let said = data.0.join("stderr");
        let (process, stdout) = launch(program, flags, &data.0, File::create(&said)?)?;
        let Some(line) = first_line(stdout) else {
            drop(process);
            let text = fs::read_to_string(&said)?;
            return Err(io::Error::other(format!("the server did not start: {text}")));
        };
        Ok(Server { address: member(&line, "grpc")?, http: member(&line, "http")?, _process: process, _data: data })
    }
}

fn launch(program: &OsString, flags: Vec<OsString>, data: &Path, stderr: File) -> io::Result<(Process, ChildStdout)> {
    let mut command = Command::new(program);
    command.args(["serve", "--json", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--kafka", "none", "--data"]);
    command.arg(data.join("data")).args(flags);
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("STRANDLINE")) {
        command.env_remove(name);
    }
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn();
    let mut child = started.map_err(|error| {
        let advice = "set STRANDLINE to the path of the program strandline, or have strandline in PATH";
        io::Error::new(error.kind(), format!("there is no server to start ({error}): {advice}"))
    })?;
    let stdout = child.stdout.take().expect("it was asked for");
    Ok((Process(child), stdout))
}

/// What the server writes first; none if it ends before, or has not written in time.
fn first_line(stdout: ChildStdout) -> Option<String> {
    let (write, read) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        if BufReader::new(stdout).read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let _ = write.send(line); // unless nobody waits any more
        }
    });
    read.recv_timeout(STARTS_WITHIN).ok()
}

/// The value of a member of a JSON object, a text without escapes.
fn member(object: &str, name: &str) -> io::Result<String> {
    let value = object.split_once(&format!("\"{name}\":\"")).and_then(|(_, rest)| rest.split_once('"'));
    value
        .map(|(text, _)| text.to_owned())
        .ok_or_else(|| io::Error::other(format!("the output of the server lacks {name}: {object}")))
}

/// A child that ends with its value.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}

/// A temporary folder that is removed with its value.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn create() -> io::Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let name = format!("strandline-test-{}-{}", id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {} // of a process that had this id
                made => return made.map(|()| Folder(path)),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // it is temporary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A program for which a script stands in, in a folder of its own.
    fn stand_in(script: &str) -> (Folder, OsString) {
        let folder = Folder::create().unwrap();
        let path = folder.0.join("strandline");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path.into())
    }

    #[test]
    fn a_server_that_does_not_start_says_why_and_leaves_nothing() {
        let (_folder, program) = stand_in("echo \"no room in ${10}\" >&2; exit 1");
        let said = Server::of(&program, vec![]).unwrap_err().to_string();
        let data = said.split_once("no room in ").unwrap().1.trim();
        assert!(data.ends_with("/data"), "{said}");
        assert!(!Path::new(data).parent().unwrap().exists(), "{said}");
    }

    #[test]
    fn a_machine_without_a_program_says_how_to_have_one() {
        let error = Server::of(&"/nowhere/strandline".into(), vec![]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("set STRANDLINE"), "{error}");
    }

    #[test]
    fn flags_reach_the_server_and_its_data_are_removed() {
        let (_folder, program) =
            stand_in("mkdir \"${10}\"; echo \"{\\\"grpc\\\":\\\"${10}\\\",\\\"http\\\":\\\"$*\\\"}\"; exec sleep 60");
        let server = Server::of(&program, vec!["--memory".into(), "64MiB".into()]).unwrap();
        let data = PathBuf::from(server.address());
        assert!(data.exists());
        assert!(server.http().ends_with("--memory 64MiB"), "{}", server.http());
        drop(server);
        assert!(!data.parent().unwrap().exists());
    }
}
