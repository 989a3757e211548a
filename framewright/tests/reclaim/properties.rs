//! Random programs on random stores.

use std::cell::Cell;

use framewright::{
    reclaim::{PageKind, Rest},
    tuning::{Auto, FlushBatching},
};
use proptest::{collection::vec, prelude::*};

use crate::{
    pages::Mood,
    world::{CPU, World, memory, node},
};

#[derive(Clone, Copy, Debug)]
struct Step {
    action: u8,
    pick: u16,
    count: u8,
}

fn kind_of(id: u32) -> PageKind {
    if id.is_multiple_of(3) { PageKind::Anon } else { PageKind::File }
}

const MOODS: [Mood; 6] =
    [Mood::Prompt, Mood::Slow, Mood::Busy, Mood::Fails, Mood::FailsLate, Mood::Full];

fn run(choices: u16, steps: &[Step]) {
    let batching =
        [FlushBatching::Lazy, FlushBatching::All, FlushBatching::CleanOnly, FlushBatching::Off];
    let world = memory(1024, |tuning| {
        tuning.tlb.batching = batching[usize::from(choices & 3)];
        tuning.tlb.parked_max = Auto::Fixed(u32::from(choices >> 2 & 3) * 40);
        tuning.tlb.batch = Auto::Fixed([32, 1, 7, 200][usize::from(choices >> 4 & 3)]);
        tuning.reclaim.cluster = [32, 1, 64, 5][usize::from(choices >> 6 & 3)];
        tuning.reclaim.add_batch = [31, 1, 63, 4][usize::from(choices >> 8 & 3)];
    });
    let world = world.platform();
    world.pages().swap = choices >> 10 & 1 == 1;
    world.pages().writers = choices >> 11 & 1 == 1;
    world.pages().contention = [0, 3, 17, 0][usize::from(choices >> 12 & 3)];
    let kswapd = Cell::new(world.reclaim().kswapd(node()));
    for step in steps {
        act(world, &kswapd, *step);
        world.check();
    }
    world.set_mood(Mood::Prompt);
    world.complete(usize::MAX);
    world.check();
    world.unpark_all();
    world.check();
}

fn act(
    world: &'static World,
    kswapd: &Cell<Option<framewright::reclaim::Kswapd<'static, 'static, World>>>,
    Step { action, pick, count }: Step,
) {
    let id = u32::from(pick) % 1500;
    let many = u32::from(count) * 2;
    let resident = || {
        let pages = world.pages();
        let at = usize::from(pick) % pages.resident.len().max(1);
        pages.resident.keys().nth(at).copied()
    };
    match action % 16 {
        0..=2 => _ = (id..id + many).all(|id| world.touch(id, kind_of(id)).is_ok()),
        3 | 4 => _ = (id..id + many / 4).all(|id| world.store(id, kind_of(id)).is_ok()),
        5 => (id..id + many / 8).for_each(|id| world.truncate(id)),
        6 => _ = world.direct(u64::from(count)),
        7 => {
            let mut body = kswapd.take().expect("put back every time");
            for _ in 0..40 {
                if body.step(&mut world.token()) != Rest::None {
                    break;
                }
            }
            kswapd.set(Some(body));
        }
        8 => world.complete(usize::from(count)),
        9 => world.set_mood(MOODS[usize::from(pick) % MOODS.len()]),
        10 => {
            let Some(pfn) = resident() else { return };
            let mut pages = world.pages();
            let page = pages.page(pfn);
            page.references = if page.references > 0 { 0 } else { u32::from(count % 4) };
        }
        11 => {
            let Some(pfn) = resident() else { return };
            let to = count % 2 == 0;
            world.pages().page(pfn).unevictable = to;
            if count % 4 < 2 {
                world.lru().set_unevictable(pfn, to);
            }
        }
        12 => {
            let Some(pfn) = resident() else { return };
            match count % 4 {
                0 => world.lru().mark_accessed(CPU, pfn),
                1 => world.lru().activate(CPU, pfn),
                2 => world.lru().deactivate(CPU, pfn),
                _ => world.lru().drain_all(),
            }
        }
        13 => {
            let Some(pfn) = resident() else { return };
            if world.lru().isolate(pfn) {
                assert!(!world.lru().isolate(pfn));
                world.direct(8);
                assert!(
                    world.pages().resident.contains_key(&pfn),
                    "an isolated page was reclaimed"
                );
                // SAFETY: it was isolated above.
                assert!(unsafe { world.lru().put_back(pfn) });
            }
        }
        14 => {
            let Some(pfn) = resident() else { return };
            let mut pages = world.pages();
            let page = pages.page(pfn);
            page.pinned ^= true;
            page.executable = count % 2 == 0;
            page.maps += u32::from(count % 3);
            page.young = page.young.min(page.maps);
        }
        _ => world.pages().resident.values_mut().for_each(|page| page.young = 0),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<u8>(), any::<u16>(), any::<u8>()).prop_map(|(action, pick, count)| Step {
        action,
        pick,
        count,
    });
    vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(64),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_store_is_lost_and_nothing_is_left_behind(choices in any::<u16>(), steps in steps()) {
        run(choices, &steps);
    }
}
