//! Labels at the ends of lines.

/// Pixels from one label to the next at least.
pub(super) const APART: i32 = 17;

/// Moves labels at these heights apart, as little as it takes, within `top` to `bottom` if they fit.
/// The result is in the order of the input.
pub(super) fn spread(heights: &[i32], top: i32, bottom: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by_key(|&index| (heights[index], index));
    let mut placed: Vec<i32> = order.iter().map(|&index| heights[index]).collect();
    // Down until none meet, then up from the bottom where that pushed them out.
    let mut floor = top;
    for height in &mut placed {
        *height = (*height).max(floor);
        floor = *height + APART;
    }
    let mut ceiling = bottom;
    for height in placed.iter_mut().rev() {
        *height = (*height).min(ceiling);
        ceiling = *height - APART;
    }
    let mut result = vec![0; heights.len()];
    for (position, index) in order.into_iter().enumerate() {
        result[index] = placed[position];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_meet_are_moved_apart_and_keep_their_order() {
        assert_eq!(spread(&[10, 200, 100], 0, 300), [10, 200, 100]);
        assert_eq!(spread(&[100, 101, 99], 0, 300), [116, 133, 99]);
        assert_eq!(spread(&[300, 299], 0, 300), [300, 283]);
        assert_eq!(spread(&[0, 0], 0, 300), [0, 17]);
    }
}
