//! Standard output: plain in a pipe, which the reader may close early.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::{framewright, stdout_of};

#[test]
fn a_pipe_gets_no_colours_unless_forced() {
    assert!(!stdout_of(&["tuning"]).contains('\x1b'));
    let forced = framewright(&["tuning"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stdout.contains(&0x1b));
    let refused = framewright(&["tuning"]).env("NO_COLOR", "1").output().unwrap();
    assert!(!refused.stdout.contains(&0x1b));
}

#[test]
fn a_pipe_that_its_reader_closed_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_framewright"))
        .arg("tuning")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""));
}
