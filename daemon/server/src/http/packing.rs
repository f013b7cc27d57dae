//! Bodies that are packed, unpacked piece by piece: what is too long ends where it becomes so.

use std::io::Read;

use super::problem::ApiError;
use super::uploads::{Held, too_large};

/// How a body is packed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// As the header Content-Encoding says. `None`: in a way that is not known here, or in several.
    pub(super) fn of(encoding: &str) -> Option<Self> {
        match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Self::None),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Unpacks into memory that is held for it; `look` sees each piece before more is unpacked, and may end it.
    pub(super) fn unpack(
        self,
        packed: Vec<u8>,
        most: usize,
        held: &mut Held,
        mut look: impl FnMut(&[u8]) -> Result<(), ApiError>,
    ) -> Result<Vec<u8>, ApiError> {
        let mut reader: Box<dyn Read> = match self {
            Self::None => {
                packed.chunks(PIECE_BYTES).try_for_each(look)?;
                return Ok(packed);
            }
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(&*packed)),
            Self::Zstd => Box::new(zstd(&packed).map_err(unreadable)?),
        };
        let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
        loop {
            let n = reader.read(&mut piece).map_err(unreadable)?;
            if n == 0 {
                return Ok(bytes);
            }
            if bytes.len() + n > most {
                return Err(too_large(most));
            }
            look(&piece[..n])?;
            held.reserve(&mut bytes, n, most)?;
            bytes.extend_from_slice(&piece[..n]);
        }
    }
}

fn zstd(packed: &[u8]) -> std::io::Result<impl Read> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn unreadable(error: std::io::Error) -> ApiError {
    ApiError::bad_request(format!("the body could not be read or unpacked: {error}"))
}

/// Unpacked at once.
const PIECE_BYTES: usize = 64 << 10;
/// 8 MiB, which is the most that HTTP allows for zstd (RFC 9659).
const WINDOW_LOG_MAX: u32 = 23;

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::http::shares::Parties;
    use crate::http::uploads::Uploads;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(packing: Packing, packed: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        let mut held = Arc::new(Uploads::new(1 << 20)).begin(&Parties::default());
        packing.unpack(packed, 1 << 20, &mut held, |_| Ok(()))
    }

    #[test]
    fn what_is_unpacked_is_what_was_packed() {
        let bytes: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(unpack(Packing::Gzip, gzip(&bytes)).unwrap(), bytes);
        assert_eq!(unpack(Packing::Zstd, zstd::encode_all(&*bytes, 3).unwrap()).unwrap(), bytes);
        assert_eq!(unpack(Packing::None, bytes.clone()).unwrap(), bytes);
        for (packing, packed) in [(Packing::Gzip, &b"no gzip"[..]), (Packing::Zstd, b"no zstd at all")] {
            unpack(packing, packed.to_vec()).unwrap_err();
        }
    }

    #[test]
    fn what_becomes_too_long_ends_there() {
        let long = vec![0; 64 << 20];
        for (packing, packed) in
            [(Packing::Gzip, gzip(&long)), (Packing::Zstd, zstd::encode_all(&*long, 3).unwrap())]
        {
            let mut seen = 0;
            let mut held = Arc::new(Uploads::new(1 << 20)).begin(&Parties::default());
            let count = |piece: &[u8]| {
                seen += piece.len();
                Ok(())
            };
            packing.unpack(packed, 1 << 20, &mut held, count).unwrap_err();
            assert!(seen <= 1 << 20, "{packing:?} {seen}");
        }
    }

    #[test]
    fn a_window_larger_than_http_allows_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(25).unwrap();
        encoder.write_all(&vec![7; 64 << 20]).unwrap();
        unpack(Packing::Zstd, encoder.finish().unwrap()).unwrap_err();
    }

    #[test]
    fn other_packings_are_not_known() {
        assert_eq!(Packing::of("GZIP"), Some(Packing::Gzip));
        for other in ["br", "gzip, gzip", "rot13"] {
            assert_eq!(Packing::of(other), None, "{other}");
        }
    }
}
