//! The fixtures that the page is tested with have the shape of these objects, field for field.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{SummationGroup, SummationGroupDetail, SummationRounds};
use crate::Page;

fn survives<T: DeserializeOwned + Serialize>(text: &str) {
    let fixture: Value = serde_json::from_str(text).unwrap();
    let object: T = serde_json::from_value(fixture.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), fixture);
}

#[test]
fn fixtures_have_the_shape_of_the_api() {
    survives::<SummationGroupDetail>(include_str!("../../../../fixtures/summation/group.json"));
    survives::<Page<SummationGroup>>(include_str!("../../../../fixtures/summation/groups.json"));
    survives::<SummationRounds>(include_str!("../../../../fixtures/summation/rounds.json"));
}
