//! The program of docs/clients-rust.md.
include!(env!("STRANDLINE_PAGE"));
