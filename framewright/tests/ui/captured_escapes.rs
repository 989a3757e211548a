//! The slot for a request's block cannot outlive the call. Otherwise another request could fill it.

use std::sync::Mutex;

use framewright::platform::{Captured, CompactPriority, Compacted, Need, Relief};

struct Saver<'c>(Mutex<Option<Captured<'c>>>);

impl Relief for Saver<'_> {
    fn compact(&self, _: &Need, _: CompactPriority, captured: Captured<'_>) -> Compacted {
        *self.0.lock().unwrap() = Some(captured);
        Compacted::Success
    }
}

fn main() {}
