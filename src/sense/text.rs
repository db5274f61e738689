//! Small files that a kernel writes anew at each read.

use std::fs::File;
use std::io;
use std::path::Path;

/// Far more than the files in question hold; what lies beyond is not read.
const MAX_BYTES: usize = 1 << 20;

/// A buffer for one such file after the other.
#[derive(Debug, Default)]
pub(crate) struct Text(Vec<u8>);

impl Text {
    /// The contents of the file at `path`.
    ///
    /// Opened each time: the two calls more cost less than what the kernel does to write such a file,
    /// and a file that was removed or replaced shows as that.
    pub(crate) fn of(&mut self, path: &Path) -> io::Result<&str> {
        self.of_open(&File::open(path)?)
    }

    /// The contents of an open file, from its beginning.
    pub(crate) fn of_open(&mut self, file: &File) -> io::Result<&str> {
        let mut len = 0;
        loop {
            if self.0.len() < len + 512 {
                self.0.resize((self.0.len() * 2).max(1_024), 0);
            }
            match read_at(file, &mut self.0[len..], len as u64) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if len >= MAX_BYTES {
                break;
            }
        }
        std::str::from_utf8(&self.0[..len])
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read(buffer)
}
