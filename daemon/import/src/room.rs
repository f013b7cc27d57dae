//! What reading a file may use of the process that reads it, and until when.

use std::io;

/// What one reading may use.
pub trait Room {
    /// Takes memory for so many bytes more.
    ///
    /// # Errors
    /// There is none now; the reading ends.
    fn take(&self, bytes: usize) -> io::Result<()>;

    /// Takes memory for what is parsed of a document, at most so many bytes.
    ///
    /// # Errors
    /// As [`Room::take`].
    fn take_parsed(&self, bytes: usize) -> io::Result<()>;

    /// Bits of the largest window of zstd.
    fn zstd_window_log_max(&self) -> u32;

    /// Whether anybody still waits for what is read.
    ///
    /// # Errors
    /// Nobody does; the reading ends.
    fn is_wanted(&self) -> io::Result<()>;
}

/// A process that does nothing else.
pub(super) struct Own;

impl Room for Own {
    fn take(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn take_parsed(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    /// 128 MiB: what `zstd --long` makes.
    fn zstd_window_log_max(&self) -> u32 {
        27
    }

    fn is_wanted(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes that end when nobody wants them any more.
pub(super) struct Wanted<'r, R> {
    pub(super) bytes: R,
    pub(super) room: &'r dyn Room,
}

impl<R: io::Read> io::Read for Wanted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.room.is_wanted()?;
        self.bytes.read(buffer)
    }
}
