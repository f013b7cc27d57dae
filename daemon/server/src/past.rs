//! What the database keeps of a moment of the past, as the API tells it. Pure: whoever asks has read it.

mod pace;
mod rings;
mod told;

pub(crate) use pace::Means;
pub(crate) use rings::rings;
pub(crate) use told::{Rates, past};
