//! What a token looks like: `rsc_<id>_<secret>`. Its beginning lets tools that look for leaked secrets find it; the id is
//! no secret and names it in lists; of the whole only a hash is kept.

use sha2::{Digest as _, Sha256};

/// What is kept of a secret.
pub type Hash = [u8; 32];

/// A new secret.
pub struct Secret {
    /// Which token it is.
    pub id: String,
    /// What is shown, once.
    pub text: String,
    /// What is kept.
    pub hash: Hash,
}

impl Secret {
    /// A token of these random bytes: eight for its id, the others for its secret.
    #[must_use]
    pub fn token(random: [u8; 40]) -> Self {
        let (id, secret) = random.split_at(8);
        let id = hex(id);
        let text = format!("{PREFIX}{id}_{}", hex(secret));
        Self { hash: hash_of(&text), id, text }
    }

    /// The number of a session, of these random bytes.
    #[must_use]
    pub fn session(random: [u8; 32]) -> Self {
        let text = hex(&random);
        Self { hash: hash_of(&text), id: String::new(), text }
    }

    /// The id in a text that has the form of a token.
    #[must_use]
    pub fn id_in(text: &str) -> Option<&str> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (id.len() == ID_DIGITS && secret.len() == SECRET_DIGITS && is_hex(id) && is_hex(secret)).then_some(id)
    }
}

/// What is kept of this text. It has 256 random bits, so nothing is won by a slow hash.
#[must_use]
pub fn hash_of(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const PREFIX: &str = "rsc_";
const ID_DIGITS: usize = 16;
const SECRET_DIGITS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_id_and_nothing_else_does() {
        let made = Secret::token([0xa5; 40]);
        assert_eq!(made.text.len(), PREFIX.len() + ID_DIGITS + 1 + SECRET_DIGITS);
        assert_eq!(Secret::id_in(&made.text), Some("a5a5a5a5a5a5a5a5"));
        let longer = format!("{}0", made.text);
        let upper = made.text.to_uppercase();
        let foreign = made.text.replace("a5a5_", "a5\u{e9}_");
        for wrong in ["", "rsc_", "rsc__", "hello", &made.text[..40], &longer, &upper, &foreign] {
            assert_eq!(Secret::id_in(wrong), None, "{wrong}");
        }
        assert_ne!(Secret::token([1; 40]).hash, made.hash);
    }
}
