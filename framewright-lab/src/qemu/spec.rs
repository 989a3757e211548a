//! What is emulated.

use std::{fmt, io, path::PathBuf, time::Duration};
use thiserror::Error;

/// A machine for QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QemuSpec {
    /// CPUs, 1 to [`QemuSpec::MOST_CPUS`].
    pub cpus: u16,
    /// Memory, in MiB.
    pub mib: u64,
    /// Nodes, to which CPUs and memory are dealt out evenly: 1 to [`QemuSpec::MOST_NODES`], and at most
    /// one for each CPU.
    pub nodes: u16,
}

impl QemuSpec {
    /// CPUs that the kernel takes.
    pub const MOST_CPUS: u16 = 32;
    /// Nodes.
    pub const MOST_NODES: u16 = 8;
    /// Memory that the kernel needs for itself and a little work, in MiB.
    pub const LEAST_MIB: u64 = 64;
    /// Memory, unless it is said, in MiB.
    pub const MIB: u64 = 512;

    /// The options of QEMU for it.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "-smp".to_owned(),
            self.cpus.to_string(),
            "-m".to_owned(),
            format!("{}M", self.mib),
        ];
        if self.nodes > 1 {
            for node in 0..self.nodes {
                let share = |whole: u64, node: u16| whole * u64::from(node) / u64::from(self.nodes);
                // Shares of memory in pageblocks.
                let mib = share(self.mib / 2, node + 1) * 2 - share(self.mib / 2, node) * 2;
                let first = share(self.cpus.into(), node);
                let last = share(self.cpus.into(), node + 1) - 1;
                arguments.extend([
                    "-object".to_owned(),
                    format!("memory-backend-ram,id=m{node},size={mib}M"),
                    "-numa".to_owned(),
                    format!("node,nodeid={node},memdev=m{node},cpus={first}-{last}"),
                ]);
            }
        }
        arguments
    }
}

impl fmt::Display for QemuSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "qemu:{},{}MiB,{}", self.cpus, self.mib, self.nodes)
    }
}

/// Why there is no result.
#[derive(Debug, Error)]
pub enum QemuError {
    /// There is no QEMU.
    #[error(
        "there is no {0}: install it, on Debian and Ubuntu with \
         `apt install --no-install-recommends qemu-system-x86`"
    )]
    NoQemu(&'static str),
    /// The sources of the kernel are not there.
    #[error(
        "the sources of the kernel are not at '{}': qemu machines need a checkout of the repository \
         with its folder kernel/",
        .0.display()
    )]
    NoSources(PathBuf),
    /// Something could not be started.
    #[error("cannot run {program}: {error}")]
    Start {
        /// What.
        program: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The kernel could not be built.
    #[error("the kernel could not be built:\n{0}")]
    Build(String),
    /// The machine took too long.
    #[error("the machine was still running after {} s, and was stopped; it said last:\n{said}", .after.as_secs())]
    TimedOut {
        /// What it was given.
        after: Duration,
        /// Its last lines.
        said: String,
    },
    /// QEMU has no such machine, or the host no memory for it.
    #[error("QEMU cannot make this machine: {0}")]
    NoMachine(String),
    /// The kernel cannot do what it was asked to.
    #[error("the kernel refuses: {0}")]
    Refused(String),
    /// The kernel panicked.
    #[error("the kernel stopped: {0}")]
    Stopped(String),
    /// The machine ended in a way in which none should.
    #[error("QEMU ended with {code} and without a result; the machine said last:\n{said}")]
    Ended {
        /// How.
        code: String,
        /// Its last lines.
        said: String,
    },
}

impl QemuError {
    /// Whether what was asked for cannot be had here; otherwise the kernel is broken.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Stopped(_) | Self::Ended { .. } | Self::TimedOut { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_share_cpus_and_memory() {
        let line = QemuSpec { cpus: 5, mib: 514, nodes: 2 }.arguments().join(" ");
        assert!(
            line.starts_with("-smp 5 -m 514M -object memory-backend-ram,id=m0,size=256M"),
            "{line}"
        );
        assert!(
            line.contains("memdev=m0,cpus=0-1") && line.contains("memdev=m1,cpus=2-4"),
            "{line}"
        );
        assert!(line.contains("id=m1,size=258M"), "{line}");
        assert!(!QemuSpec { cpus: 2, mib: 512, nodes: 1 }.arguments().concat().contains("numa"));
    }
}
