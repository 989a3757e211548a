//! How large this machine's caches are, as far as it says.

use std::fs;

use crate::workloads::heat::Caches;

/// Frames of a core's cache where the system does not say: 1 MiB.
const OF_CORE: u32 = 256;
/// Frames of a socket's cache where the system does not say: 16 MiB.
const OF_SOCKET: u32 = 4096;

/// The caches of a machine of `cpus` threads, each taken for a core, all of one socket.
pub(super) fn caches(cpus: u16) -> Caches {
    Caches {
        core_of: (0..cpus).collect(),
        socket_of: vec![0; usize::from(cpus)],
        of_core: level(2).unwrap_or(OF_CORE),
        of_socket: level(3).unwrap_or(OF_SOCKET),
    }
}

fn level(level: u8) -> Option<u32> {
    let path = format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size");
    frames(fs::read_to_string(path).ok()?.trim())
}

/// Frames in a size as the system writes it: `1024K`.
fn frames(text: &str) -> Option<u32> {
    let kib: u32 = text.strip_suffix('K')?.parse().ok()?;
    Some(kib / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_kib() {
        assert_eq!(frames("2048K"), Some(512));
        assert_eq!(frames("2M"), None);
        assert_eq!(frames(""), None);
    }
}
