//! What proves that a connection belongs to a communicator.

use crate::error::{Error, Result};

/// Bytes of the secret.
pub(crate) const SECRET_BYTES: usize = 16;

/// What proves that a connection belongs to a communicator.
pub(crate) type Secret = [u8; SECRET_BYTES];

/// Whether somebody has shown the secret. Takes as long whatever was shown, so that the time tells nothing.
pub(crate) fn is_secret(shown: &[u8], secret: &Secret) -> bool {
    let differences = shown.iter().zip(secret).fold(0, |all, (one, other)| all | (one ^ other));
    shown.len() == SECRET_BYTES && std::hint::black_box(differences) == 0
}

/// A fresh secret.
pub fn new_secret() -> Result<Secret> {
    let mut secret = Secret::default();
    let mut filled = 0;
    while filled < secret.len() {
        let got = rustix::rand::getrandom(&mut secret[filled..], rustix::rand::GetRandomFlags::empty());
        filled += got.map_err(|error| Error::system("getrandom", &error.into()))?;
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_secret_counts() {
        let secret = new_secret().unwrap();
        assert!(is_secret(&secret, &secret) && !is_secret(&secret[..15], &secret));
        for at in 0..SECRET_BYTES {
            let mut wrong = secret;
            wrong[at] ^= 1;
            assert!(!is_secret(&wrong, &secret));
        }
    }
}
