//! Jobs that borrow: work on the pieces of one slice, in place.
//!
//! You want this where the data is already here and a copy of it, or an `Arc` around it, would be the larger part of the
//! work. The scope returns when all its jobs have ended, so they may borrow whatever outlives it. Nothing waits for a slot:
//! a piece that is refused is worked on here, by the thread that has to wait anyway.
//!
//! ```text
//! cargo run --release --example scope
//! ```

use std::error::Error;

use weirpool::Pool;

const WIDTH: usize = 1_024;

/// Stretches the brightness of a piece of an image to the whole range.
fn stretch(pixels: &mut [u8], darkest: u8, brightest: u8) {
    let range = u16::from(brightest - darkest).max(1);
    for pixel in pixels {
        *pixel = (u16::from(*pixel - darkest) * 255 / range) as u8;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().name("image").workers(2).capacity(16).build()?;
    // A dull one.
    let mut image: Vec<u8> = (0..WIDTH * 768).map(|at| 100 + (at % 41) as u8).collect();
    let (darkest, brightest) = (*image.iter().min().unwrap(), *image.iter().max().unwrap());

    let mut done_here = 0;
    let rows = image.chunks_mut(16 * WIDTH);
    let pieces = rows.len();
    pool.scope(|scope| {
        for piece in rows {
            if let Err(rejected) = scope.try_submit(|| stretch(piece, darkest, brightest)) {
                done_here += 1;
                rejected.run_here();
            }
        }
    });

    let range = (image.iter().min().unwrap(), image.iter().max().unwrap());
    println!("brightness {darkest} to {brightest} is now {} to {}", range.0, range.1);
    println!("{pieces} pieces, {done_here} of them done by the calling thread");
    Ok(())
}
