//! Who sends a batch.

use super::{Tenant, Who};

/// Whose share of the daemon something counts against.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Sender {
    /// Whose jobs and hosts it tells of. `None`: nobody's in particular.
    pub tenant: Option<Tenant>,
    /// Id of the token, or of the person. Empty: it is not known.
    pub id: String,
    /// Its name.
    pub name: String,
}

impl From<&Who> for Sender {
    fn from(who: &Who) -> Self {
        Self { tenant: who.tenant.clone(), id: who.id.clone(), name: who.name.clone() }
    }
}
