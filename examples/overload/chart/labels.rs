//! Labels beside the ends of lines, none on top of another.

/// The places nearest to the wanted ones, in the same order, that are at least `gap` apart and
/// between `from` and `to`; where they can't fit, they are as far apart as they can be.
///
/// Places less their rank times the gap must not fall, and of all such sequences the nearest, by
/// the squares, is found by pooling neighbours that fall until none do.
pub(crate) fn spread(wanted: &[f64], gap: f64, (from, to): (f64, f64)) -> Vec<f64> {
    let count = wanted.len();
    let gap = gap.min((to - from) / count.saturating_sub(1).max(1) as f64);
    let mut order: Vec<_> = (0..count).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));

    // Each pool: the sum of its members' levels, and how many they are.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (rank, &label) in order.iter().enumerate() {
        let mut pool = (wanted[label] - rank as f64 * gap, 1);
        while let Some(&(sum, len)) = pools.last() {
            if sum / len as f64 <= pool.0 / pool.1 as f64 {
                break;
            }
            pool = (pool.0 + sum, pool.1 + len);
            pools.pop();
        }
        pools.push(pool);
    }

    let highest = (to - count.saturating_sub(1) as f64 * gap).max(from);
    let levels = pools
        .iter()
        .flat_map(|&(sum, len)| std::iter::repeat_n((sum / len as f64).clamp(from, highest), len));
    let mut places = vec![0.0; count];
    for (rank, (&label, level)) in order.iter().zip(levels).enumerate() {
        places[label] = level + rank as f64 * gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_with_room_stay_where_they_are() {
        assert_eq!(spread(&[30.0, 10.0], 10.0, (0.0, 100.0)), [30.0, 10.0]);
        assert!(spread(&[], 10.0, (0.0, 100.0)).is_empty());
    }

    #[test]
    fn labels_that_meet_make_room_on_both_sides() {
        assert_eq!(spread(&[50.0, 50.0, 50.0], 10.0, (0.0, 100.0)), [40.0, 50.0, 60.0]);
        assert_eq!(spread(&[52.0, 50.0, 90.0], 10.0, (0.0, 100.0)), [56.0, 46.0, 90.0]);
    }

    #[test]
    fn the_ends_are_kept() {
        assert_eq!(spread(&[100.0, 100.0, 99.0], 10.0, (0.0, 100.0)), [90.0, 100.0, 80.0]);
        assert_eq!(spread(&[0.0, -50.0], 10.0, (0.0, 100.0)), [10.0, 0.0]);
        // Too many to fit: evenly.
        assert_eq!(spread(&[5.0; 3], 10.0, (0.0, 10.0)), [0.0, 5.0, 10.0]);
    }
}
