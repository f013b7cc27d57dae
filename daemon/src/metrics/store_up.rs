//! `ringscope_store_up`.

use prometheus::proto::MetricFamily;

use super::family;
use crate::ingest::{Keeper, StoreState};

pub(super) fn family(keeper: &Keeper) -> MetricFamily {
    let up = match keeper.state() {
        StoreState::Open(_) | StoreState::None => 1.0,
        StoreState::Opening | StoreState::Away(_) => 0.0,
    };
    family::gauge("ringscope_store_up", "1 if the database can be used.", [(Vec::new(), up)])
}
