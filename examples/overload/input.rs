//! The work: the files of a folder, cut into pieces that take about a millisecond each.

use std::cell::RefCell;
use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::{Compress, Compression, FlushCompress, Status};
use sha2::{Digest, Sha256};

use crate::AnyError;

/// More input would not make the work any more real, but the start slower.
const MOST_BYTES: usize = 64 << 20;

/// A smaller folder is repeated up to this size. DEFLATE looks back 32 KiB at most, so a copy
/// is as much work as its original, unless the folder is smaller than that.
const LEAST_BYTES: usize = 1 << 20;

const JOB_TIME: Duration = Duration::from_millis(1);

const SKIPPED: [&str; 2] = ["target", ".git"];

pub(crate) struct Work {
    bytes: Vec<u8>,
    /// How much the folder gave; the rest repeats it.
    read_len: usize,
    piece_len: usize,
}

/// What a job answers with: the hash of its piece and its compressed length.
pub(crate) type Packed = ([u8; 32], usize);

impl Work {
    pub(crate) fn read(folder: &Path) -> Result<Self, AnyError> {
        let mut bytes = read_files(folder)
            .map_err(|error| format!("cannot read the folder {}: {error}", folder.display()))?;
        if bytes.is_empty() {
            return Err(format!("no readable file with content in {}", folder.display()).into());
        }
        let read_len = bytes.len();
        while bytes.len() < LEAST_BYTES {
            bytes.extend_from_within(..read_len.min(LEAST_BYTES - bytes.len()));
        }
        Ok(Work { bytes, read_len, piece_len: 32 << 10 })
    }

    /// Sets the size of the pieces so that a job takes about [`JOB_TIME`], and returns
    /// what it came to.
    pub(crate) fn calibrate(&mut self) -> Duration {
        for _ in 0..3 {
            let ratio = JOB_TIME.as_secs_f64() / self.typical_job_time().as_secs_f64();
            let ideal = self.piece_len as f64 * ratio;
            self.piece_len = (ideal as usize).clamp(256, self.bytes.len());
        }
        self.typical_job_time()
    }

    pub(crate) fn piece_len(&self) -> usize {
        self.piece_len
    }

    pub(crate) fn read_len(&self) -> usize {
        self.read_len
    }

    /// The body of job number `index`; numbers beyond the last piece start over.
    pub(crate) fn run_job(&self, index: usize) -> Packed {
        // A long prime stride spreads any run of numbers over the whole folder, so that neither
        // the calibration nor a short load sees only the files that come first.
        const STRIDE: usize = 1_000_003;
        let pieces = self.bytes.len() / self.piece_len;
        let start = index.wrapping_mul(STRIDE) % pieces * self.piece_len;
        pack(&self.bytes[start..start + self.piece_len])
    }

    /// The median, not the mean: a job whose thread lost its core for a while tells nothing.
    fn typical_job_time(&self) -> Duration {
        let start = Instant::now();
        let mut times = Vec::new();
        while start.elapsed() < JOB_TIME * 100 {
            let job_start = Instant::now();
            std::hint::black_box(self.run_job(times.len()));
            times.push(job_start.elapsed());
        }
        times.sort_unstable();
        times[times.len() / 2]
    }
}

fn pack(piece: &[u8]) -> Packed {
    thread_local! {
        // Kept for each worker: the compressor alone is some 300 KiB, which a job of a
        // millisecond should not allocate anew.
        static PRESS: RefCell<(Compress, Vec<u8>)> =
            RefCell::new((Compress::new(Compression::default(), false), Vec::new()));
    }
    PRESS.with_borrow_mut(|(deflate, compressed)| {
        deflate.reset();
        compressed.clear();
        // What cannot be compressed is stored, at a few bytes per block.
        compressed.reserve(piece.len() + piece.len() / 64 + 1024);
        let status = deflate.compress_vec(piece, compressed, FlushCompress::Finish);
        assert!(matches!(status, Ok(Status::StreamEnd)), "a piece fits in its buffer");
        (Sha256::digest(piece).into(), compressed.len())
    })
}

/// The content of the files at and below `root`, one after the other. Only a root that can't be
/// listed is an error: below it, what this user may not open is left out.
fn read_files(root: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut waiting = sorted_entries(root)?;
    while let Some(entry) = waiting.pop() {
        let room = MOST_BYTES - bytes.len();
        if room == 0 {
            break;
        }
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
            waiting.extend(sorted_entries(&entry.path()).unwrap_or_default());
        } else if kind.is_file() {
            // A file that fails half-way has given its first half, which is as good as any input.
            let _ = File::open(entry.path())
                .and_then(|file| file.take(room as u64).read_to_end(&mut bytes));
        }
    }
    Ok(bytes)
}

/// Sorted, so that the same folder gives the same jobs everywhere; last name first, since the
/// caller takes from the end.
fn sorted_entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.filter_map(Result::ok).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
    Ok(entries)
}
