//! Panics in `Relief`, and calls that it must not get.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
};

use framewright::{CpuId, reclaim::PageKind};

use crate::world::{cool, filled, node};

#[test]
fn frames_that_were_reclaimed_for_a_request_are_not_lost() {
    let world = filled(1900, PageKind::File);
    cool(world);
    world.fails.store(true, Ordering::Relaxed);
    let touch =
        |page| catch_unwind(AssertUnwindSafe(|| world.touch(page, PageKind::File).unwrap()));
    let failed = (1900..4000).find(|&page| touch(page).is_err());
    assert!(failed.is_some() && !world.fails.load(Ordering::Relaxed));
    world.check();
}

#[test]
fn background_reclaim_leaves_the_frames_of_another_memory_alone() {
    let (world, other) = (filled(1900, PageKind::File), filled(1900, PageKind::File));
    cool(world);
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    let mut token = other.memory().cpu(CpuId::new(0)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| kswapd.step(&mut token))).is_err());
    drop(token);
    world.check();
    other.check();
}

#[test]
fn nothing_is_reclaimed_for_a_cpu_that_the_memory_has_not() {
    let world = filled(1900, PageKind::File);
    cool(world);
    let none = CpuId::new(2);
    let shrink = || world.reclaim().shrink_node(none, node(), 32);
    assert!(catch_unwind(AssertUnwindSafe(shrink)).is_err());
    world.check();
}
