//! Generates src/wire/strandline.v1.rs of the client: `cargo run` here, or `cargo run -- FOLDER`
//! to compare. Only messages: the client calls methods by their names.
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::args().nth(1).map_or(here.join("../src/wire"), Into::into);
    let files = ["log", "session", "catalog"].map(|name| format!("strandline/v1/{name}.proto"));
    let parsed = protox::compile(files, [here.join("../../../proto")])?;
    prost_build::Config::new().bytes(["."]).disable_comments(["."]).out_dir(out).compile_fds(parsed)?;
    Ok(())
}
