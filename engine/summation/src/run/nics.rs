//! What is known of the NICs of a group's machines: what their processes were told, what was measured, and what NICs say. In
//! this order: a NIC may say more than the network behind it gives.

use serde::{Deserialize, Serialize};

/// Of the machine of one process, in Mbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nic {
    /// `RSUM_NIC_MBIT_S`
    pub(crate) told: Option<u32>,
    /// By [`super::measure`], when the group began.
    #[serde(default)]
    pub(crate) measured: Option<u32>,
    /// By its NIC.
    pub(crate) said: Option<u32>,
    /// `RSUM_MEASURE`: whether it may be measured.
    #[serde(default)]
    pub(crate) measures: bool,
}

impl Nic {
    /// What counts.
    pub(crate) fn mbit(self) -> Option<u64> {
        self.told.or(self.measured).or(self.said).map(u64::from)
    }
}

impl std::fmt::Display for Nic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = [(self.told, "told"), (self.measured, "measured"), (self.said, "as the NIC says")];
        let mut known = known.iter().filter_map(|(rate, how)| Some((rate.as_ref()?, how)));
        let Some((rate, how)) = known.next() else { return f.write_str("unknown") };
        write!(f, "{rate} {how}")?;
        known.try_for_each(|(rate, how)| write!(f, ", {rate} {how}"))
    }
}

/// Which machines are to be measured; none where that would tell nothing, or somebody does not want it. `machines` has each
/// rank's.
pub(super) fn wanted(nics: &[Nic], machines: &[usize], n_machines: usize) -> Option<Vec<bool>> {
    let may = n_machines > 1 && nics.len() == machines.len() && nics.iter().all(|nic| nic.measures);
    let is_told = |machine| nics.iter().zip(machines).any(|(nic, at)| *at == machine && nic.told.is_some());
    let wanted: Vec<bool> = (0..n_machines).map(|machine| !is_told(machine)).collect();
    Some(wanted).filter(|wanted| may && wanted.contains(&true))
}

/// Of each machine, what was measured before; 0: nothing.
pub(super) fn measured(nics: &[Nic], machines: &[usize], n_machines: usize) -> Vec<u64> {
    let of =
        |machine| nics.iter().zip(machines).find_map(|(nic, at)| nic.measured.filter(|_| *at == machine));
    (0..n_machines).map(|machine| of(machine).map_or(0, u64::from)).collect()
}

/// With what was measured of each machine; 0: nothing.
pub(super) fn with_measured(nics: &mut [Nic], machines: &[usize], measured: &[u64]) {
    for (nic, machine) in nics.iter_mut().zip(machines) {
        let measured = measured.get(*machine).copied().filter(|rate| *rate > 0);
        nic.measured = measured.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX));
    }
}

/// What each rank has of its machine's NIC, which its processes share, if all rates are known.
pub(super) fn shares(nics: &[Nic], machines: &[usize]) -> Option<Vec<u64>> {
    let n_there = |machine: usize| machines.iter().filter(|other| **other == machine).count() as u64;
    let share = |(nic, machine): (&Nic, &usize)| Some((nic.mbit()? / n_there(*machine).max(1)).max(1));
    nics.iter().zip(machines).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(told: Option<u32>, said: Option<u32>) -> Nic {
        Nic { told, said, measured: None, measures: true }
    }

    #[test]
    fn processes_of_a_machine_share_its_nic() {
        let nics = [100, 10, 100, 100, 40].map(|rate| nic(Some(rate), None));
        assert_eq!(shares(&nics, &[0, 1, 0, 0, 2]), Some(vec![33, 10, 33, 33, 40]));
        assert_eq!(shares(&[nic(Some(100), None), nic(None, None)], &[0, 1]), None);
    }

    #[test]
    fn what_was_told_comes_first_and_what_a_nic_says_last() {
        let mut nics =
            [nic(Some(5), Some(1000)), nic(None, Some(1000)), nic(None, Some(1000)), nic(None, None)];
        let machines = [0, 1, 2, 1];
        assert_eq!(wanted(&nics, &machines, 3), Some(vec![false, true, true]));
        with_measured(&mut nics, &machines, &[7, 90, 0]);
        assert_eq!(nics.map(Nic::mbit), [Some(5), Some(90), Some(1000), Some(90)]);
        assert_eq!(measured(&nics, &machines, 3), [7, 90, 0]);
        assert_eq!(nics[1].to_string(), "90 measured, 1000 as the NIC says");
        assert_eq!(Nic::default().to_string(), "unknown");
    }

    #[test]
    fn nothing_is_measured_where_it_tells_nothing_or_one_does_not_want_it() {
        let untold = nic(None, None);
        assert_eq!(wanted(&[untold; 2], &[0, 0], 1), None, "one machine");
        assert_eq!(wanted(&[nic(Some(1), None); 2], &[0, 1], 2), None, "all are told");
        assert_eq!(wanted(&[untold, Nic { measures: false, ..untold }], &[0, 1], 2), None);
        let text = serde_json::to_string(&untold).unwrap();
        assert_eq!(serde_json::from_str::<Nic>(&text).unwrap(), untold);
    }
}
