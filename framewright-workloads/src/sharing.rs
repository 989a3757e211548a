//! [`Sharing`]: the pages of a task.

/// Whether tasks share one mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Each task has a mapping of its own, as processes have.
    Private,
    /// All tasks have parts of one mapping, as threads have.
    Shared,
}

/// The pages of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The number of the mapping.
    pub mapping: usize,
    /// The first page in the mapping.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
}

impl Sharing {
    /// The number of mappings of `tasks` tasks, and the pages of each mapping if a task has
    /// `pages`.
    #[must_use]
    pub const fn mappings(self, tasks: usize, pages: u64) -> (usize, u64) {
        match self {
            Self::Private => (tasks, pages),
            Self::Shared => (1, pages * tasks as u64),
        }
    }

    /// The pages of a task, if each has `pages`.
    #[must_use]
    pub const fn part(self, task: usize, pages: u64) -> Part {
        match self {
            Self::Private => Part { mapping: task, first: 0, pages },
            Self::Shared => Part { mapping: 0, first: task as u64 * pages, pages },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_each_mapping_once() {
        for sharing in [Sharing::Private, Sharing::Shared] {
            let (mappings, each) = sharing.mappings(4, 10);
            let mut counts = [[0; 40]; 4];
            for part in (0..4).map(|task| sharing.part(task, 10)) {
                let pages = part.first as usize..(part.first + part.pages) as usize;
                counts[part.mapping][pages].iter_mut().for_each(|count| *count += 1);
            }
            for (mapping, counts) in counts.iter().enumerate() {
                let pages = if mapping < mappings { each as usize } else { 0 };
                assert!(counts[..pages].iter().all(|&count| count == 1), "{sharing:?}");
                assert!(counts[pages..].iter().all(|&count| count == 0), "{sharing:?}");
            }
        }
    }
}
