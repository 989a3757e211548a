//! Clusters: up to 64 pages that are reclaimed together.
//!
//! The library asks the owner about slices of frames, and the answers decide which pages enter the
//! next phase. A set of pages is one word with a bit per page.

use crate::{
    observe::NodeStat,
    platform::{Platform, Site},
    sync::Address,
    types::{LruList, PageKind, Pfn, set::bits},
};

use super::{
    Reclaim,
    flags::Place,
    lists::End,
    node::LockedLists,
    page::Page,
    scan::{CLUSTER_MAX, ScanControl},
};

/// A set of pages of a cluster, one bit per page.
pub(super) type Pages = u64;

/// The number of pages in a set.
pub(super) fn count(pages: Pages) -> usize {
    pages.count_ones() as usize
}

/// The first `count` pages of a set.
pub(super) fn part(pages: Pages, count: usize) -> Pages {
    bits(pages).take(count).fold(0, |part, at| part | 1 << at)
}

/// Pages that were isolated together from one list of one node.
pub(super) struct Cluster {
    slots: [u32; CLUSTER_MAX],
    frames: [Pfn; CLUSTER_MAX],
    len: usize,
    kind: PageKind,
    /// Number of pages skipped because of their zone.
    pub(super) skipped: u32,
}

impl Cluster {
    fn new(kind: PageKind) -> Self {
        Self {
            slots: [0; CLUSTER_MAX],
            frames: [Pfn::new(0); CLUSTER_MAX],
            len: 0,
            kind,
            skipped: 0,
        }
    }

    fn push<P: Platform>(&mut self, page: &Page<'_, '_, P>) {
        self.slots[self.len] = page.slot;
        self.frames[self.len] = page.pfn();
        self.len += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The set of all pages.
    pub(super) fn all(&self) -> Pages {
        match self.len {
            0 => 0,
            len => !0 >> (CLUSTER_MAX - len),
        }
    }

    pub(super) fn slot(&self, at: u32) -> u32 {
        self.slots[at as usize]
    }

    pub(super) fn pfn(&self, at: u32) -> Pfn {
        self.frames[at as usize]
    }

    /// Collects the frames of some pages in one array, with their positions in the cluster.
    pub(super) fn gather(&self, some: Pages) -> Group {
        let mut group = Group { frames: [Pfn::new(0); CLUSTER_MAX], at: [0; CLUSTER_MAX], len: 0 };
        for at in bits(some) {
            group.frames[group.len] = self.pfn(at);
            group.at[group.len] = at as u8;
            group.len += 1;
        }
        group
    }
}

/// Frames to pass to the owner.
pub(super) struct Group {
    frames: [Pfn; CLUSTER_MAX],
    at: [u8; CLUSTER_MAX],
    len: usize,
}

impl Group {
    pub(super) fn frames(&self) -> &[Pfn] {
        &self.frames[..self.len]
    }

    /// Calls `ask`, unless there are no frames. Returns each answer with the position of its page
    /// in the cluster.
    pub(super) fn ask<A: Copy + Default>(
        &self,
        ask: impl FnOnce(&[Pfn], &mut [A]),
    ) -> impl Iterator<Item = (u32, A)> {
        let mut answers = [A::default(); CLUSTER_MAX];
        if self.len > 0 {
            ask(self.frames(), &mut answers[..self.len]);
        }
        let places = self.at;
        (0..self.len).map(move |i| (u32::from(places[i]), answers[i]))
    }
}

/// The maximum number of pages of higher zones that are skipped under one hold of the LRU lock.
const SKIP_MAX: u32 = 256;

impl<'m, P: Platform> Reclaim<'_, 'm, P> {
    /// Isolates up to `want` pages from the tail of a list. Pages of zones that the request cannot
    /// use are skipped, and moved to the head.
    pub(super) fn isolate(&self, scan: &ScanControl, list: LruList, want: u64) -> Cluster {
        let mut cluster = Cluster::new(list.kind());
        let platform = self.memory.platform();
        let want = want.min(self.memory.tuning().reclaim.cluster.into()) as usize;
        platform.point(Site::Reclaim);
        let flags = Address::of(self.state.flags);
        self.state.node(scan.node).prefetch_tail(platform, list, want, |slot| flags.prefetch(slot));
        self.state.node(scan.node).with_lists(platform, |lists| {
            self.take(scan, list, want, lists, &mut cluster);
        });
        self.state.node(scan.node).add_isolated(list.kind(), cluster.len as u32);
        self.trace_isolated(scan, list, want as u64, &cluster);
        cluster
    }

    fn take(
        &self,
        scan: &ScanControl,
        list: LruList,
        want: usize,
        lists: &mut LockedLists<'_, 'm, P>,
        cluster: &mut Cluster,
    ) {
        let mut unseen = lists.lists().length(list) as usize;
        while cluster.skipped < SKIP_MAX && unseen > 0 {
            unseen -= self.take_run(scan, list, want.min(cluster.len + unseen), lists, cluster);
            let Some(slot) = lists.lists().tail(list) else { return };
            let page = self.state.page_at(slot);
            if cluster.len == want || unseen == 0 || page.zone.kind <= scan.highest {
                return;
            }
            unseen -= 1;
            page.unlink(lists);
            page.link(lists, End::Head);
            page.node.count(NodeStat::skip(page.zone.kind), 1);
            lists.probe_skip();
            cluster.skipped += 1;
        }
    }

    /// Isolates a run of pages at the tail whose zones the request can use, and removes it from the
    /// list in one step. The links within the run do not change. Returns the number of pages.
    fn take_run(
        &self,
        scan: &ScanControl,
        list: LruList,
        want: usize,
        lists: &mut LockedLists<'_, 'm, P>,
        cluster: &mut Cluster,
    ) -> usize {
        let before = cluster.len;
        let mut next = lists.lists().tail(list);
        while cluster.len < want
            && let Some(slot) = next
        {
            let page = self.state.page_at(slot);
            if page.zone.kind > scan.highest
                || !page.flags.change_place(Place::Listed, Place::Isolated)
            {
                break;
            }
            page.zone.count(list, -1);
            cluster.push(&page);
            next = lists.next(slot);
        }
        let taken = cluster.len - before;
        if taken > 0 {
            lists.cut(list, taken as u32, next);
        }
        taken
    }

    /// Puts pages back on the lists that their flags select: those in `tail` at the tail, the
    /// others at the head. Returns the pages that were abandoned meanwhile; the caller frees their
    /// frames.
    pub(super) fn put_back(
        &self,
        scan: &ScanControl,
        cluster: &Cluster,
        some: Pages,
        tail: Pages,
    ) -> Pages {
        if some == 0 {
            return 0;
        }
        let platform = self.memory.platform();
        let mut abandoned = 0;
        platform.point(Site::Reclaim);
        let slots = bits(some).map(|at| cluster.slot(at));
        self.state.node(scan.node).prefetch_links(platform, slots);
        self.state.node(scan.node).with_lists(platform, |lists| {
            for at in bits(some) {
                let end = if tail >> at & 1 == 1 { End::Tail } else { End::Head };
                if !self.state.page_at(cluster.slot(at)).put_back(lists, end) {
                    abandoned |= 1 << at;
                }
            }
        });
        self.state.node(scan.node).sub_isolated(platform, cluster.kind, some.count_ones());
        abandoned
    }
}
