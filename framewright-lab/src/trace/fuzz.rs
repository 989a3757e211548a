//! The doors that a fuzzer knocks on: arbitrary bytes must give events or an error, never a panic.

use super::{Snapshot, TraceReader};

/// Reads `bytes` as a recording, to its end or first error, and then as a snapshot.
///
/// Returns how many events the recording gave.
pub fn read_everything(bytes: &[u8]) -> u64 {
    let mut events = 0;
    if let Ok(mut reader) = TraceReader::from_bytes("fuzz", bytes.to_vec()) {
        while let Ok(Some(record)) = reader.next_record() {
            assert!(record.line > 0, "lines are counted from 1");
            events += 1;
        }
        assert_eq!(events, reader.events(), "every event is handed out once");
        // Messages must not panic either.
        for warning in reader.warnings() {
            assert!(!warning.to_string().is_empty());
        }
    }
    if let Err(error) = Snapshot::parse("fuzz", bytes) {
        assert!(!error.to_string().is_empty());
    }
    events
}
