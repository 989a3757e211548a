//! The search for pageblocks to empty.

use super::{
    emptying::{free, full},
    *,
};

#[test]
fn a_piece_ends_with_the_grade_in_which_it_found_sources() {
    let mut buddy = full(8);
    // The emptiest pageblocks are the last three.
    free(&mut buddy, (0..5).flat_map(|index| index * FRAMES..index * FRAMES + 200));
    free(&mut buddy, (5..8).flat_map(|index| index * FRAMES..index * FRAMES + 400));
    let piece = |resume, is_eligible: fn(u32) -> bool| {
        let search = Search { kind: SourceKind::AllMovable, pageblocks: 1, headers: 64, resume };
        let mut found = Sources::default();
        let searched = buddy.find_sources(search, is_eligible, &mut found);
        (searched.headers, found.iter().collect::<Vec<_>>(), searched.resume)
    };
    let (headers, found, resume) = piece(None, |_| true);
    assert_eq!((headers, found.len()), (3, 3));
    assert!(found.iter().all(|index| *index >= 5), "{found:?}");
    let (headers, found, resume) = piece(resume, |_| true);
    assert_eq!((headers, found.len(), resume), (5, 5, None));
    // Without a source in the first grade, the piece goes on.
    let (headers, found, _) = piece(None, |index| index < 5);
    assert_eq!((headers, found.len()), (8, 5));
}
