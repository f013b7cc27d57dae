//! Where the fuzzers begin: the fixtures, in the form that each target takes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::decode_length_delimiter;

/// What of a log is a seed: beginnings have the inits, and short inputs are tried more often.
const SEED_BYTES: usize = 20_000;
/// Batches of a recording that are seeds.
const BATCHES: usize = 40;
/// First byte of a seed of `import`, `ingest` and `nccl_log`: it comes in pieces that are as large as they get.
const WHOLE: u8 = u8::MAX;

/// Writes the seeds of all targets.
pub(super) fn write(root: &Path) -> Result<()> {
    let (fixtures, corpora) = (root.join("fixtures"), root.join("fuzz/corpus"));
    let corpus = |target: &str| Corpus::at(corpora.join(target));
    let (import, logs) = (corpus("import")?, corpus("nccl_log")?);
    for (name, text) in beginnings(&fixtures.join("logs"), "log")? {
        logs.put(&name, &[&[WHOLE], &text])?;
    }
    let import_files = [("import", "json"), ("import", "jsonl"), ("import", "log"), ("import/torch", "")];
    for (folder, end) in import_files {
        for (name, text) in beginnings(&fixtures.join(folder), end)? {
            import.put(&name, &[&[WHOLE], &text])?;
            import.put(&format!("{name}.gz"), &[&[WHOLE], &gzip(&text)?])?;
            import.put(&format!("{name}.zst"), &[&[WHOLE], &zstd(&text)])?;
        }
    }
    let (batch, ingest, body) = (corpus("batch")?, corpus("ingest")?, corpus("body")?);
    let recording = fixtures.join("upgrade/release-before.batches");
    let recorded = fs::read(&recording).with_context(|| format!("cannot read {}", recording.display()))?;
    let mut rest = &*recorded;
    for n in 0..BATCHES {
        if rest.is_empty() {
            break;
        }
        let length = decode_length_delimiter(&mut rest)?;
        let bytes = rest.split_off(..length).context("the last batch is cut")?;
        let name = format!("recorded-{n}");
        batch.put(&name, &[bytes])?;
        ingest.put(&name, &[&[WHOLE], bytes])?;
        body.put(&format!("{name}.gz"), &[&[0], &gzip(bytes)?])?;
        body.put(&format!("{name}.zst"), &[&[1], &zstd(bytes)])?;
        body.put(&name, &[&[2], bytes])?;
    }
    access(&corpus("token")?, &corpus("cookie")?)
}

/// Tokens and sessions that the targets know (`fuzz_targets/known`), and what else a request may bring in their place.
fn access(tokens: &Corpus, cookies: &Corpus) -> Result<()> {
    for byte in [7, 8, 9, 10] {
        let token = format!("rsc_{}_{}", hex(byte, 8), hex(byte, 32));
        for (form, text) in [
            ("bearer", format!("Bearer {token}")),
            ("spaces", format!("bearer  {token} ")),
            ("two", format!("Basic dTpw\nBearer {token}")),
            ("json", format!("{{\"token\": \"{token}\"}}")),
            ("bare", token),
        ] {
            tokens.put(&format!("{form}-{byte}"), &[text.as_bytes()])?;
        }
    }
    let of_token = hex(b'x', 32);
    let of_person = format!("01{}{:02x}", hex(0, 30), b'x');
    for (name, session, begin) in [("token", of_token, 'b'), ("person", of_person, 'p')] {
        for (form, text) in [
            ("begun", format!("{begin}x\n=ringscope_session={session}")),
            ("secure", format!("{begin}x\n=a=b; __Host-ringscope_session={session}; c")),
            ("out", format!("{begin}x\noringscope_session={session}\n=ringscope_session={session}")),
            (
                "late",
                format!("{begin}x\nt\u{7}\n=ringscope_session={session}\nt~\n=ringscope_session={session}"),
            ),
            ("revoked", format!("{begin}x\nr\n=ringscope_session={session}")),
            ("several", format!("{begin}x\n={}", format!("ringscope_session={session};").repeat(6))),
            ("headers", format!("{begin}x\n=a=b\rringscope_session={session}\rringscope_session=")),
        ] {
            cookies.put(&format!("{name}-{form}"), &[text.as_bytes()])?;
        }
    }
    Ok(())
}

/// A folder of seeds.
struct Corpus(PathBuf);

impl Corpus {
    fn at(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(folder))
    }

    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        let path = self.0.join(name);
        fs::write(&path, parts.concat()).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The files of a folder whose names end so, as far as they are seeds.
fn beginnings(folder: &Path, end: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut beginnings = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let is_one = path.is_file() && path.extension().unwrap_or_default() == end;
        if let Some(name) = path.file_name().filter(|_| is_one) {
            let mut text = fs::read(&path)?;
            text.truncate(SEED_BYTES);
            beginnings.push((name.to_string_lossy().into_owned(), text));
        }
    }
    Ok(beginnings)
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// A frame of blocks that are not compressed (RFC 8878): the fuzzer finds the others.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    // Single segment, with the size of the content in four bytes.
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0][..], &size.to_le_bytes()].concat();
    let n_blocks = bytes.len().div_ceil(ZSTD_BLOCK_BYTES);
    for (n, block) in bytes.chunks(ZSTD_BLOCK_BYTES).enumerate() {
        let size = u32::try_from(block.len()).unwrap_or(u32::MAX);
        let head = (size << 3) | u32::from(n + 1 == n_blocks);
        frame.extend_from_slice(&head.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
}

fn hex(byte: u8, times: usize) -> String {
    format!("{byte:02x}").repeat(times)
}

/// The most that a block may hold.
const ZSTD_BLOCK_BYTES: usize = 128 << 10;
