//! The emulated machine.

use std::fmt;

/// A machine for QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QemuSpec {
    /// CPUs, 1 to [`QemuSpec::MOST_CPUS`].
    pub cpus: u16,
    /// Memory, in MiB.
    pub mib: u64,
    /// Nodes, with equal shares of CPUs and memory: 1 to [`QemuSpec::MOST_NODES`], and at most one
    /// for each CPU.
    pub nodes: u16,
}

impl QemuSpec {
    /// Maximum number of CPUs of the kernel.
    pub const MOST_CPUS: u16 = 32;
    /// Maximum number of nodes.
    pub const MOST_NODES: u16 = 8;
    /// Minimum memory for the kernel and a little work, in MiB.
    pub const LEAST_MIB: u64 = 64;
    /// Default memory, in MiB.
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
                // Shares of memory in whole pageblocks.
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
