//! Entry points for a fuzzer: arbitrary bytes must give events or an error, never a panic.

use std::fmt::{self, Write};

use super::{Snapshot, TraceReader};

/// Reads `bytes` as a recording, to its end or first error, and then as a snapshot.
///
/// Returns the number of the recording's events.
pub fn read_everything(bytes: &[u8]) -> u64 {
    let mut events = 0;
    if let Ok(mut reader) = TraceReader::from_bytes("fuzz", bytes.to_vec()) {
        while let Ok(Some(record)) = reader.next_record() {
            assert!(record.line > 0, "lines are counted from 1");
            events += 1;
        }
        assert_eq!(events, reader.events(), "events were lost or returned twice");
        // Messages must not panic either.
        for warning in reader.warnings() {
            assert!(!warning.to_string().is_empty());
        }
    }
    match Snapshot::parse("fuzz", bytes) {
        Ok(snapshot) => is_stable_when_written_again(&snapshot),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    events
}

/// Writes a snapshot, reads the text, and writes it again. The first text contains the tables only, so both
/// texts must be equal.
fn is_stable_when_written_again(snapshot: &Snapshot) {
    let text = written(snapshot);
    for gap in snapshot.gaps() {
        assert!(!gap.to_string().is_empty());
    }
    let again = Snapshot::parse("written", text.as_bytes());
    let again = again.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(written(&again), text);
}

fn written(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let mut section = |name: &str, write: fn(&Snapshot, &mut dyn Write) -> fmt::Result| {
        text += &format!("# {name}\n");
        write(snapshot, &mut text).expect("writing to a string");
    };
    section("zoneinfo", |tables, out| tables.write_zoneinfo(out));
    section("buddyinfo", |tables, out| tables.write_buddyinfo(out));
    section("pagetypeinfo", |tables, out| tables.write_pagetypeinfo(out));
    section("indices", |tables, out| {
        tables.write_extfrag_index(out)?;
        tables.write_unusable_index(out)
    });
    text
}
