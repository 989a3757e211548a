//! Counting the shootdown interrupts that this process's own threads receive.
//!
//! `/proc/interrupts` counts those of the whole system, other programs' too. The event `tlb:tlb_flush`
//! names the task that was interrupted; a tracing instance that has it for this process alone counts.

use std::fs;

use super::error::RecordError;
use super::events::Wanted;
use super::files;
use super::instance::{Instance, cpus};
use super::tracefs::Tracefs;

/// One that was received: the kernel's `TLB_REMOTE_SHOOTDOWN`.
const RECEIVED: &str = "reason == 1";
/// For each CPU. Events are counted, not kept.
const BUFFER: u64 = 64 << 10;
const EVENT: Wanted = Wanted { subsystem: "tlb", name: "tlb_flush", needed: true };

/// Counts from when it is made until it is dropped.
pub struct Shootdowns {
    instance: Instance,
    _tracefs: Tracefs,
}

impl Shootdowns {
    /// Counts for this process, threads that are to come among it.
    ///
    /// # Errors
    ///
    /// [`RecordError`]: tracing is for root, or this kernel lacks something.
    pub fn count() -> Result<Self, RecordError> {
        let tracefs = Tracefs::find()?;
        tracefs.remove_stale();
        let instance = Instance::create(&tracefs.files, tracefs.instance(), BUFFER)?;
        let threads: Vec<String> = fs::read_dir("/proc/self/task")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        instance.set("options/event-fork", "1")?;
        instance.set("set_event_pid", &threads.join(" "))?;
        let event = format!("events/{}/{}", EVENT.subsystem, EVENT.name);
        instance.set(&format!("{event}/filter"), RECEIVED)?;
        if !instance.enable(&EVENT)? {
            return Err(RecordError::NoEvent("tlb:tlb_flush"));
        }
        instance.trace(true)?;
        Ok(Self { instance, _tracefs: tracefs })
    }

    /// How many there were so far.
    ///
    /// # Errors
    ///
    /// [`RecordError`]: the kernel does not say.
    pub fn so_far(&self) -> Result<u64, RecordError> {
        let folder = self.instance.path("per_cpu");
        let mut sum = 0;
        for cpu in cpus(&folder)? {
            let path = folder.join(format!("cpu{cpu}/stats"));
            match files::read(&path) {
                Ok(text) => sum += events(&text),
                Err(error) if files::has_no_buffer(&error) => {}
                Err(reason) => return Err(RecordError::kernel("reading", &path, reason)),
            }
        }
        Ok(sum)
    }
}

/// Events of a buffer, those among them that had to make room.
fn events(stats: &str) -> u64 {
    let counts = ["entries", "overrun", "dropped events"];
    let of = |line: &str| {
        let (name, value) = line.split_once(':')?;
        if counts.contains(&name.trim()) { value.trim().parse::<u64>().ok() } else { None }
    };
    stats.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_made_room_count() {
        let stats = "entries: 120\noverrun: 30\ncommit overrun: 4\nbytes: 4096\n\
                     oldest event ts:  5157.5\nnow ts: 5158.0\ndropped events: 2\nread events: 0\n";
        assert_eq!(events(stats), 152);
    }
}
