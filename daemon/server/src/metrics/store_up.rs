//! `ringscope_store_up`.

use prometheus::proto::MetricFamily;

use super::family;

pub(super) fn family(is_up: bool) -> MetricFamily {
    let up = f64::from(u8::from(is_up));
    family::gauge("ringscope_store_up", "1 if the database can be used.", [(Vec::new(), up)])
}
