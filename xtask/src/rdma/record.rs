//! What a guest shows.

use anyhow::Result;

use super::pair::Options;

pub(super) fn all(_: &Options) -> Result<()> {
    Ok(())
}
