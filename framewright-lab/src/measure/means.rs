//! The CPUs and system calls that measurements may use.

use rustix::thread::{CpuSet, MembarrierCommand, membarrier, membarrier_query, sched_getaffinity};
use std::fs;

use super::topology::socket_of;
use crate::clock::two_cpus;

/// The CPUs, caches and system calls of this machine that measurements can use. An `Err` is the reason why one is
/// missing.
#[derive(Clone, Debug)]
pub struct Means {
    /// The CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// The CPU of the first thread.
    pub first: usize,
    /// Another CPU of the same socket, on another core if there is one.
    pub second: Result<usize, String>,
    /// A CPU of another socket.
    pub remote: Result<usize, String>,
    /// Whether this process may interrupt its other threads with `membarrier`.
    pub membarrier: Result<(), String>,
    /// Sizes of the caches of the first CPU in bytes, by level from 1.
    pub caches: [Option<usize>; 3],
}

impl Means {
    /// Finds out what this process may use.
    #[must_use]
    pub fn detect() -> Self {
        let cpus: Vec<usize> = sched_getaffinity(None)
            .map(|set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
            .unwrap_or_default();
        let first = cpus.first().copied().unwrap_or(0);
        let one = || "this process may use one CPU only".to_owned();
        let socket = socket_of(first);
        let here = |cpu: &usize| socket_of(*cpu) == socket;
        let second = match two_cpus() {
            Some([_, second]) if here(&second) => Ok(second),
            Some(_) => cpus
                .iter()
                .copied()
                .skip(1)
                .find(here)
                .ok_or_else(|| "this process may use one CPU of the socket only".to_owned()),
            None => Err(one()),
        };
        let remote = cpus.iter().copied().find(|cpu| !here(cpu));
        Self {
            first,
            second,
            remote: remote.ok_or_else(|| "this process uses one socket only".to_owned()),
            membarrier: register(),
            caches: [1, 2, 3].map(|level| cache_size(first, level)),
            cpus,
        }
    }
}

/// Registers this process for expedited barriers.
fn register() -> Result<(), String> {
    if !membarrier_query().contains_command(MembarrierCommand::PrivateExpedited) {
        return Err("this kernel has no private expedited membarrier".to_owned());
    }
    membarrier(MembarrierCommand::RegisterPrivateExpedited)
        .map_err(|errno| format!("the kernel refused to register for membarrier ({errno})"))
}

/// Bytes of the data cache of this level.
fn cache_size(cpu: usize, level: u32) -> Option<usize> {
    let read = |index: u32, name: &str| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    };
    let found = (0..8).find(|&index| {
        read(index, "level").is_some_and(|found| found == level.to_string())
            && read(index, "type").is_some_and(|kind| kind != "Instruction")
    })?;
    kibibytes(&read(found, "size")?)
}

/// Bytes of a size as the kernel prints it: `32K`.
fn kibibytes(text: &str) -> Option<usize> {
    let kib: usize = text.strip_suffix('K')?.parse().ok()?;
    (kib > 0).then_some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_kibibytes() {
        assert_eq!(kibibytes("32K"), Some(32 << 10));
        for text in ["", "K", "0K", "32", "32M"] {
            assert_eq!(kibibytes(text), None, "{text}");
        }
    }
}
