//! Panics in `Relief`, and calls with arguments of another allocator.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
};

use framewright::{CpuId, reclaim::PageKind};

use crate::embedder::{clear_young, filled, node};

#[test]
fn frames_that_were_reclaimed_for_a_request_are_not_lost() {
    let embedder = filled(1900, PageKind::File);
    clear_young(embedder);
    embedder.fails.store(true, Ordering::Relaxed);
    let touch =
        |page| catch_unwind(AssertUnwindSafe(|| embedder.touch(page, PageKind::File).unwrap()));
    let failed = (1900..4000).find(|&page| touch(page).is_err());
    assert!(failed.is_some() && !embedder.fails.load(Ordering::Relaxed));
    embedder.check();
}

#[test]
fn background_reclaim_leaves_the_frames_of_another_memory_alone() {
    let (embedder, other) = (filled(1900, PageKind::File), filled(1900, PageKind::File));
    clear_young(embedder);
    let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
    let mut token = other.memory().cpu(CpuId::new(0)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| kswapd.step(&mut token))).is_err());
    drop(token);
    embedder.check();
    other.check();
}

#[test]
fn nothing_is_reclaimed_for_an_unknown_cpu() {
    let embedder = filled(1900, PageKind::File);
    clear_young(embedder);
    let none = CpuId::new(2);
    let shrink = || embedder.reclaim().shrink_node(none, node(), 32);
    assert!(catch_unwind(AssertUnwindSafe(shrink)).is_err());
    embedder.check();
}
