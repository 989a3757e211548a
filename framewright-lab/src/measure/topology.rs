//! Sockets, cores and nodes of the CPUs that this process may use, as the kernel describes them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The directory of sysfs that describes CPUs and nodes.
const SYSTEM: &str = "/sys/devices/system";
/// Memory is managed in pageblocks of 2 MiB.
const PAGEBLOCK: u64 = 2 << 20;

/// The CPUs and memory of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topology {
    /// Cores of each socket.
    pub(super) cores: Vec<usize>,
    /// CPUs of each core.
    pub(super) threads: usize,
    /// Socket and bytes of each node.
    pub(super) nodes: Vec<(usize, u64)>,
    /// Empty for the default distances.
    pub(super) distances: Vec<Vec<u64>>,
    /// The differences from the topology of the real machine, as a sentence; empty if there are none.
    pub(super) simplified: String,
}

/// The socket of a CPU; 0 if the kernel does not say.
pub(super) fn socket_of(cpu: usize) -> usize {
    System(SYSTEM.into()).number(&format!("cpu/cpu{cpu}/topology/physical_package_id")).unwrap_or(0)
}

impl Topology {
    /// The topology of `cpus`.
    pub(super) fn of(cpus: &[usize]) -> Self {
        let system = System(SYSTEM.into());
        system.topology(cpus).unwrap_or_else(|what| Self::flat(cpus, system.memory(), &what))
    }

    /// One socket and node, and a core per CPU.
    fn flat(cpus: &[usize], memory: u64, what: &str) -> Self {
        Self {
            cores: vec![cpus.len().max(1)],
            threads: 1,
            nodes: vec![(0, memory)],
            distances: Vec::new(),
            simplified: format!("one socket, node and thread per core, because {what}"),
        }
    }
}

/// The folder with the descriptions.
struct System(PathBuf);

impl System {
    fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.0.join(path)).ok()?.trim().to_owned())
    }

    fn number(&self, path: &str) -> Option<usize> {
        self.text(path)?.parse().ok()
    }

    fn topology(&self, cpus: &[usize]) -> Result<Topology, String> {
        let mut sockets: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
        for &cpu in cpus {
            let of = |name: &str| self.number(&format!("cpu/cpu{cpu}/topology/{name}"));
            let place = of("physical_package_id").zip(of("core_id"));
            let (socket, core) =
                place.ok_or(format!("the kernel does not say where CPU {cpu} is"))?;
            *sockets.entry(socket).or_default().entry(core).or_default() += 1;
        }
        let mut threads = sockets.values().flat_map(BTreeMap::values).copied();
        let first = threads.next().ok_or("no CPU is known")?;
        if threads.any(|other| other != first) {
            return Err("cores have different numbers of threads".to_owned());
        }
        let names: Vec<usize> = sockets.keys().copied().collect();
        let cores: Vec<usize> = sockets.values().map(BTreeMap::len).collect();
        let numbers = self.node_numbers();
        let nodes: Vec<(usize, u64)> =
            numbers.iter().filter_map(|node| self.node(*node, &names)).collect();
        let mut of_socket = vec![0; cores.len()];
        nodes.iter().for_each(|(socket, _)| of_socket[*socket] += 1);
        let even = |(cores, nodes): (&usize, &usize)| *nodes > 0 && cores.is_multiple_of(*nodes);
        if !cores.iter().zip(&of_socket).all(even) {
            return Err("nodes and sockets do not fit".to_owned());
        }
        let distances =
            if nodes.len() == numbers.len() { self.distances(&numbers) } else { Vec::new() };
        Ok(Topology { cores, threads: first, nodes, distances, simplified: String::new() })
    }

    fn node_numbers(&self) -> Vec<usize> {
        (0..1024).filter(|node| self.path(*node).is_dir()).collect()
    }

    fn path(&self, node: usize) -> PathBuf {
        self.0.join(format!("node/node{node}"))
    }

    /// The socket (by its place in `sockets`) and the memory of a node with CPUs in use.
    fn node(&self, node: usize, sockets: &[usize]) -> Option<(usize, u64)> {
        let list = self.text(&format!("node/node{node}/cpulist"))?;
        let cpu: usize = list.split([',', '-']).next()?.parse().ok()?;
        let socket = self.number(&format!("cpu/cpu{cpu}/topology/physical_package_id"))?;
        let place = sockets.iter().position(|known| *known == socket)?;
        let text = self.text(&format!("node/node{node}/meminfo"))?;
        Some((place, bytes_of(&text)?))
    }

    fn distances(&self, nodes: &[usize]) -> Vec<Vec<u64>> {
        let row = |node: &usize| -> Option<Vec<u64>> {
            let text = self.text(&format!("node/node{node}/distance"))?;
            text.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let rows: Option<Vec<_>> = nodes.iter().map(row).collect();
        rows.filter(|rows| rows.iter().all(|row| row.len() == nodes.len())).unwrap_or_default()
    }

    /// All memory, from `/proc/meminfo`; 1 GiB if the kernel does not say.
    fn memory(&self) -> u64 {
        let text = fs::read_to_string(Path::new("/proc/meminfo")).unwrap_or_default();
        bytes_of(&text).unwrap_or(1 << 30)
    }
}

/// `MemTotal` in bytes, in whole pageblocks.
fn bytes_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.split_once("MemTotal:"))?;
    let kib: u64 = line.1.trim().trim_end_matches(" kB").parse().ok()?;
    Some(((kib << 10) / PAGEBLOCK * PAGEBLOCK).max(8 * PAGEBLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description with a socket and a core for each CPU, and nodes with lists of CPUs.
    fn system(cpus: &[(usize, usize)], nodes: &[&str]) -> (tempfile::TempDir, System) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (cpu, (socket, core)) in cpus.iter().enumerate() {
            write(format!("cpu/cpu{cpu}/topology/physical_package_id"), &format!("{socket}\n"));
            write(format!("cpu/cpu{cpu}/topology/core_id"), &format!("{core}\n"));
        }
        for (node, list) in nodes.iter().enumerate() {
            write(format!("node/node{node}/cpulist"), list);
            write(format!("node/node{node}/distance"), "10 21");
            write(format!("node/node{node}/meminfo"), "Node 0 MemTotal:   1050000 kB\nx");
        }
        let system = System(folder.path().to_owned());
        (folder, system)
    }

    #[test]
    fn sockets_cores_threads_and_nodes_are_read() {
        let cpus = [(0, 0), (0, 1), (3, 0), (3, 1), (0, 0), (0, 1), (3, 0), (3, 1)];
        let (_folder, system) = system(&cpus, &["0-1,4-5", "2-3,6-7"]);
        let found = system.topology(&[0, 1, 2, 3, 4, 5, 6, 7]).unwrap();
        let memory = 1_050_000_u64 / 2048 * (2 << 20);
        assert_eq!((found.cores, found.threads), (vec![2, 2], 2));
        assert_eq!(found.nodes, [(0, memory), (1, memory)]);
        assert_eq!(found.distances, [[10, 21], [10, 21]]);
        // Without the second socket, its node is left out.
        let found = system.topology(&[0, 1]).unwrap();
        assert_eq!((found.cores, found.threads, found.nodes.len()), (vec![2], 1, 1));
        assert!(found.distances.is_empty());
    }

    #[test]
    fn what_cannot_be_described_has_a_reason() {
        let (_folder, system) = system(&[(0, 0), (0, 0), (0, 1)], &["0-2"]);
        assert!(system.topology(&[0, 1, 2]).unwrap_err().contains("different numbers"));
        assert!(system.topology(&[0, 7]).unwrap_err().contains("where CPU 7 is"));
        assert!(system.topology(&[]).is_err());
        let flat = Topology::flat(&[0, 7], 1 << 30, "x");
        assert_eq!((flat.cores, flat.threads), (vec![2], 1));
    }
}
