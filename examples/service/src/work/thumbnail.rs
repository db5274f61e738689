//! Making thumbnails: decode, resize, encode.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageError, ImageFormat, ImageReader, Limits, RgbImage};

const SIDE_PIXELS: u32 = 160;
const QUALITY: u8 = 80;

/// What a picture may unpack to: a few kilobytes of PNG can claim gigabytes.
const MAX_SIDE_PIXELS: u32 = 4096;
const MAX_DECODED_BYTES: u64 = 64 << 20;

/// A thumbnail, as JPEG, of a picture in JPEG or PNG.
pub(crate) fn thumbnail(picture: &[u8]) -> Result<Vec<u8>, ImageError> {
    let mut reader = ImageReader::new(Cursor::new(picture)).with_guessed_format()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE_PIXELS);
    limits.max_image_height = Some(MAX_SIDE_PIXELS);
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    let small = reader.decode()?.thumbnail(SIDE_PIXELS, SIDE_PIXELS).into_rgb8();
    let mut jpeg = Vec::new();
    small.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, QUALITY))?;
    Ok(jpeg)
}

/// Pictures that the service made itself, for callers that have none.
pub(crate) struct Album(Vec<&'static [u8]>);

impl Album {
    pub(crate) fn new() -> Result<Self, ImageError> {
        let jpeg = |seed, width, height| encode(paint(seed, width, height), ImageFormat::Jpeg);
        let png = |seed, width, height| encode(paint(seed, width, height), ImageFormat::Png);
        let pictures = [jpeg(1, 800, 600)?, jpeg(2, 600, 800)?, png(3, 400, 300)?];
        // They live as long as the process: jobs then borrow them instead of copying.
        Ok(Self(pictures.map(|picture| &*picture.leak()).to_vec()))
    }

    pub(crate) fn get(&self, number: usize) -> Option<&'static [u8]> {
        self.0.get(number).copied()
    }
}

fn encode(picture: RgbImage, format: ImageFormat) -> Result<Vec<u8>, ImageError> {
    let mut file = Cursor::new(Vec::new());
    DynamicImage::from(picture).write_to(&mut file, format)?;
    Ok(file.into_inner())
}

/// Waves with some grain: neither trivial nor hopeless to compress.
fn paint(seed: u64, width: u32, height: u32) -> RgbImage {
    let mut grain = fastrand::Rng::with_seed(seed);
    let phase = seed as f32;
    RgbImage::from_fn(width, height, |x, y| {
        let (x, y) = (x as f32 / 40.0, y as f32 / 40.0);
        let waves = [(x + phase).sin() * y.cos(), (x * y / 9.0).sin(), (x - y * phase).cos()];
        image::Rgb(waves.map(|wave| {
            let light = 128.0 + 100.0 * wave + f32::from(grain.u8(0..24));
            light.clamp(0.0, 255.0) as u8
        }))
    })
}
