//! How the ports of all hosts fare, by what makes them like one another.

use std::collections::{BTreeMap, HashMap};

use ringscope_model::{Hardware, Model, Name, Nic, Port};

/// Ports that are alike: the same port of the same model on different hosts.
type Kind<'a> = (&'a Port, &'a Name, &'a Name);

/// Every port of every host.
pub(super) struct Fleet<'a>(HashMap<Kind<'a>, Ports>);

/// What is known of ports that are alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    pub(super) n: usize,
    pub(super) n_up: usize,
    /// Those that are up, by rate.
    rates: BTreeMap<u64, usize>,
}

impl<'a> Fleet<'a> {
    pub(super) fn of(model: &'a Model) -> Self {
        let mut fleet: HashMap<Kind<'a>, Ports> = HashMap::new();
        for (port, nic) in model.hardware().flat_map(|(_, hardware)| &hardware.nics) {
            fleet.entry((port, &nic.model, &nic.link_layer)).or_default().add(nic);
        }
        Self(fleet)
    }

    /// The same port on other hosts.
    pub(super) fn others(&self, port: &Port, nic: &Nic) -> Ports {
        let mut ports = self.0.get(&(port, &nic.model, &nic.link_layer)).cloned().unwrap_or_default();
        ports.remove(nic);
        ports
    }
}

impl Ports {
    /// The like ports of the same host: other RDMA devices of its model.
    pub(super) fn siblings(hardware: &Hardware, port: &Port, nic: &Nic) -> Self {
        let mut ports = Self::default();
        let alike = hardware.nics.iter().filter(|(other, known)| {
            !port.is_interface
                && other != &port
                && (other.is_interface, other.number) == (port.is_interface, port.number)
                && (&known.model, &known.link_layer) == (&nic.model, &nic.link_layer)
        });
        alike.for_each(|(_, known)| ports.add(known));
        ports
    }

    /// Whether at least half of them are up.
    pub(super) fn are_up(&self) -> bool {
        self.n_up > 0 && self.n_up * 2 >= self.n
    }

    /// The rate that more than half of those that are up have.
    pub(super) fn usual_rate(&self) -> Option<u64> {
        let n: usize = self.rates.values().sum();
        self.rates.iter().find(|(_, same)| **same * 2 > n).map(|(rate, _)| *rate)
    }

    fn add(&mut self, nic: &Nic) {
        self.n += 1;
        self.n_up += usize::from(nic.up);
        if let Some(rate) = nic.rate_bits_per_s.filter(|_| nic.up) {
            *self.rates.entry(rate).or_default() += 1;
        }
    }

    fn remove(&mut self, nic: &Nic) {
        self.n = self.n.saturating_sub(1);
        self.n_up = self.n_up.saturating_sub(usize::from(nic.up));
        if let Some(n) = nic.rate_bits_per_s.filter(|_| nic.up).and_then(|rate| self.rates.get_mut(&rate)) {
            *n = n.saturating_sub(1);
        }
    }
}
