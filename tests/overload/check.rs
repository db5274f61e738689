//! The one way in which the stories assert: a table that is printed as a whole, each figure with
//! the range it must lie in.

use std::ops::RangeInclusive;

/// A measured value and where it must lie.
pub(crate) type Figure = (f64, RangeInclusive<f64>);

pub(crate) fn at_least(value: f64, bound: f64) -> Figure {
    (value, bound..=f64::INFINITY)
}

pub(crate) fn at_most(value: f64, bound: f64) -> Figure {
    (value, f64::NEG_INFINITY..=bound)
}

pub(crate) fn exactly(value: usize, expected: usize) -> Figure {
    (value as f64, expected as f64..=expected as f64)
}

/// Prints the table (`cargo test --test overload -- --nocapture`) and fails with all the figures
/// that are out of their range.
#[track_caller]
pub(crate) fn check<const N: usize>(
    story: &str,
    columns: [&str; N],
    rows: impl IntoIterator<Item = (String, [Figure; N])>,
) {
    let mut table = format!("\n{story}\n{:44}", "");
    for column in columns {
        table += &format!("{column:>16}");
    }
    let mut wrong = String::new();
    for (name, figures) in rows {
        table += &format!("\n{name:44}");
        for (column, (value, range)) in columns.iter().zip(figures) {
            table += &format!("{value:16.4}");
            // Not the other way round: what is no number is wrong, too.
            if !range.contains(&value) {
                wrong += &format!("\n{name}: {column} is {value}, not in {range:?}");
            }
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{story}:{wrong}");
}

/// The mean of what these seeds give.
pub(crate) fn mean_of<const N: usize>(seeds: u64, run: impl Fn(u64) -> [f64; N]) -> [f64; N] {
    let mut means = [0.0; N];
    for seed in 1..=seeds {
        let of_seed = run(seed);
        (0..N).for_each(|at| means[at] += of_seed[at] / seeds as f64);
    }
    means
}

#[test]
#[should_panic(expected = "second: of NaN is NaN, not in")]
fn what_is_no_number_fails() {
    let row = |name: &str, value| (name.to_owned(), [at_most(1.0, 1.0), at_least(value, 0.0)]);
    check("A table", ["of 1", "of NaN"], [row("first", 0.0), row("second", f64::NAN)]);
}
