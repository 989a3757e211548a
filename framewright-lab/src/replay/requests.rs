//! The recorded requests, counted by order and migratetype, by flags, and by process.

use rustc_hash::FxHashMap;

use crate::trace::{Event, MAX_MIGRATETYPE, MAX_ORDER, Origin, Record, process};

/// The maximum number of different flags, and of different processes, that are counted by name.
const NAMES: usize = 4096;

/// The recorded requests. Failed requests count as well.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Requests by order and migratetype, in the kernel's numbering.
    by_order: [[u64; MAX_MIGRATETYPE as usize + 1]; MAX_ORDER as usize + 1],
    by_flags: Names,
    by_process: Names,
}

/// Numbers of requests by name.
#[derive(Clone, Debug, Default)]
struct Names {
    named: FxHashMap<Box<[u8]>, u64>,
    others: u64,
    recent: [Recent; 32],
}

/// A text that was counted lately: a recording repeats a few texts, so most requests need no look-up by name.
#[derive(Clone, Debug, Default)]
struct Recent {
    text: Vec<u8>,
    /// Requests that are not yet added to those of its name.
    more: u64,
}

impl Requests {
    /// Counts an event if it is a request.
    #[inline]
    pub(super) fn add(&mut self, record: &Record, origin: Origin<'_>) {
        let (Event::Alloc { order, migratetype, .. }
        | Event::AllocFailed { order, migratetype, .. }) = record.event
        else {
            return;
        };
        self.by_order[usize::from(order)][usize::from(migratetype)] += 1;
        let flags = origin.gfp_flags();
        self.by_flags.add(flags.len(), flags, |flags| flags);
        self.by_process.add(record.cpu.into(), origin.task(), process);
    }

    /// Ends the counting. The numbers by name are complete only afterwards.
    pub(super) fn finish(&mut self) {
        for slot in 0..self.by_flags.recent.len() {
            self.by_flags.forget(slot, |flags| flags);
            self.by_process.forget(slot, process);
        }
    }

    /// All requests.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.by_order.iter().flatten().sum()
    }

    /// The numbers by order and migratetype, in the kernel's numbering, ascending; none is 0.
    pub fn by_order(&self) -> impl Iterator<Item = ((u8, u8), u64)> {
        let of_order = |(order, types): (u8, &[u64; _])| {
            (0..).zip(*types).map(move |(of, requests)| ((order, of), requests))
        };
        (0..).zip(&self.by_order).flat_map(of_order).filter(|&(_, requests)| requests > 0)
    }

    /// The text of the flags, as the kernel prints it, and the number of requests, most first; at most `count`, then the
    /// rest as *others*.
    #[must_use]
    pub fn by_flags(&self, count: usize) -> Vec<(String, u64)> {
        self.by_flags.most(count)
    }

    /// The name of the process, and the number of its requests, most first; at most `count`, then the rest as *others*.
    #[must_use]
    pub fn by_process(&self, count: usize) -> Vec<(String, u64)> {
        self.by_process.most(count)
    }
}

impl Names {
    /// Counts a request whose `text` contains a name. `place` chooses the recent text to compare with.
    #[inline]
    fn add(&mut self, place: usize, text: &[u8], name: fn(&[u8]) -> &[u8]) {
        let place = place % self.recent.len();
        if self.recent[place].text != text {
            self.forget(place, name);
            self.count(name(text), 1);
            self.recent[place].text.extend_from_slice(text);
        } else {
            self.recent[place].more += 1;
        }
    }

    /// Adds the requests of a recent text to those of its name.
    fn forget(&mut self, place: usize, name: fn(&[u8]) -> &[u8]) {
        let Recent { mut text, more } = std::mem::take(&mut self.recent[place]);
        if more > 0 {
            self.count(name(&text), more);
        }
        text.clear();
        self.recent[place].text = text;
    }

    fn count(&mut self, name: &[u8], more: u64) {
        if let Some(requests) = self.named.get_mut(name) {
            *requests += more;
        } else if self.named.len() < NAMES {
            self.named.insert(name.into(), more);
        } else {
            self.others += more;
        }
    }

    fn most(&self, count: usize) -> Vec<(String, u64)> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let mut all: Vec<(String, u64)> =
            self.named.iter().map(|(name, &requests)| (text(name), requests)).collect();
        all.sort_by(|(name, requests), (other, others)| {
            others.cmp(requests).then_with(|| name.cmp(other))
        });
        let rest = all.split_off(count.min(all.len()));
        let rest = self.others + rest.iter().map(|(_, requests)| requests).sum::<u64>();
        all.extend((rest > 0).then(|| ("others".to_owned(), rest)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceReader;

    const TEXT: &str = "\
kworker/0:1-30 [000] ..... 1.0: mm_page_alloc: page=1 pfn=0x10 order=0 migratetype=1 gfp_flags=GFP_KERNEL
      my task-7 [001] ..... 1.1: mm_page_alloc: page=1 pfn=0x20 order=3 migratetype=0 gfp_flags=GFP_ATOMIC|__GFP_ZERO
      my task-7 [001] ..... 1.2: mm_page_alloc: page=0 pfn=0x0 order=3 migratetype=0 gfp_flags=GFP_KERNEL
      my task-7 [001] ..... 1.3: mm_page_free: page=1 pfn=0x20 order=3
";

    fn requests(text: &str) -> Requests {
        let mut reader = TraceReader::from_bytes("t", text.into()).unwrap();
        let mut requests = Requests::default();
        while reader.next_with(|record, origin| requests.add(record, origin)).unwrap().is_some() {}
        requests.finish();
        requests
    }

    #[test]
    fn requests_are_counted_by_order_type_flags_and_process() {
        let requests = requests(TEXT);
        assert_eq!(requests.all(), 3);
        assert_eq!(requests.by_order().collect::<Vec<_>>(), [((0, 1), 1), ((3, 0), 2)]);
        let named = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
            all.iter().map(|&(name, requests)| (name.to_owned(), requests)).collect()
        };
        assert_eq!(requests.by_flags(8), named(&[("GFP_KERNEL", 2), ("GFP_ATOMIC|__GFP_ZERO", 1)]));
        assert_eq!(requests.by_process(8), named(&[("my task", 2), ("kworker/0:1", 1)]));
        assert_eq!(requests.by_process(1), named(&[("my task", 2), ("others", 1)]));
    }

    #[test]
    fn names_beyond_the_limit_are_others() {
        let line = |n: u64| {
            format!(
                "t{n}-1 [000] ..... 1.0: mm_page_alloc: page=1 pfn={n} order=0 migratetype=1 gfp_flags=GFP_KERNEL\n"
            )
        };
        let requests = requests(&(1..=NAMES as u64 + 5).map(line).collect::<String>());
        assert_eq!(requests.by_process(1)[1].1, NAMES as u64 + 4);
        assert_eq!(requests.by_process(usize::MAX).len(), NAMES + 1);
    }
}
