//! The size that the documents state is the true one.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

/// Lines of source without comments and empty ones.
fn lines() -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(folder).unwrap();
    let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    texts
        .map(|text| {
            let code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
            text.lines().filter(code).count()
        })
        .sum()
}

#[test]
fn the_documents_state_the_size() {
    // To the next fifty, so that not every line is an edit of two documents.
    let stated = format!("{} lines of code", lines().div_ceil(50) * 50);
    for document in [
        include_str!("../README.md"),
        include_str!("../../../docs/writing-a-transport.md"),
    ] {
        assert!(document.contains(&stated), "not stated: {stated}");
    }
}
