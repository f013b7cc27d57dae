//! Who knows the secret, shown without telling it, at a rendezvous or a pool's broker: HMAC-SHA-256 (RFC 2104) over what both sides have just made up.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use rsccl_collective::error::Result;
use rsccl_collective::net::secret::new_secret;

/// Bytes of SHA-256's blocks.
const BLOCK_BYTES: usize = 64;

/// Who shows it, so that one's proof is of no use to the other.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) enum Prover {
    /// Who listens.
    Root,
    /// Who calls.
    Caller,
    /// Who keeps a pool.
    Broker,
    /// Who calls that.
    Member,
}

/// Something that was never said before.
pub(in crate::session) fn nonce() -> Result<String> {
    new_secret().map(|bytes| hex(&bytes))
}

/// That `prover` knows the secret.
pub(in crate::session) fn prove(
    secret: &str,
    prover: Prover,
    roots_nonce: &str,
    callers_nonce: &str,
) -> String {
    let label = match prover {
        Prover::Root => "root",
        Prover::Caller => "caller",
        Prover::Broker => "broker",
        Prover::Member => "member",
    };
    let text = format!("ringscope summation {label}\0{roots_nonce}\0{callers_nonce}");
    hex(&hmac(secret.as_bytes(), text.as_bytes()))
}

/// Whether a proof is right. Takes as long whatever was shown.
pub(in crate::session) fn is_right(shown: &str, expected: &str) -> bool {
    let bytes = shown.bytes().zip(expected.bytes());
    let differences = bytes.fold(0, |all, (one, other)| all | (one ^ other));
    shown.len() == expected.len() && std::hint::black_box(differences) == 0
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    let hashed: [u8; 32] = Sha256::digest(key).into();
    let key = if key.len() > BLOCK_BYTES { &hashed[..] } else { key };
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let pad = |byte: u8| block.map(|of_key| of_key ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_are_right() {
        // RFC 4231, test cases 2 and 6.
        let short = hex(&hmac(b"Jefe", b"what do ya want for nothing?"));
        assert_eq!(short, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hex(&hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"));
        assert_eq!(long, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn a_proof_is_for_one_secret_one_side_and_one_pair_of_nonces() {
        let right = prove("secret", Prover::Caller, "a", "b");
        assert!(is_right(&right, &prove("secret", Prover::Caller, "a", "b")));
        let others = [
            prove("Secret", Prover::Caller, "a", "b"),
            prove("secret", Prover::Root, "a", "b"),
            prove("secret", Prover::Caller, "b", "a"),
            right[1..].to_owned(),
            String::new(),
        ];
        assert!(others.iter().all(|other| !is_right(other, &right)));
    }
}
