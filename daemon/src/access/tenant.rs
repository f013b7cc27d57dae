//! Tenants: who is a tenant sees what its own agents sent. Their names stand before those of jobs, hosts, agents and processes,
//! so that nothing that one says is ever about what another has, whatever names they give.

use std::fmt;
use std::str::FromStr;

use ringscope_wire::batch::{Batch, IngestReply};

/// Name of a tenant.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tenant(String);

impl FromStr for Tenant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > CHARS_MAX || !text.chars().all(is_name) {
            return Err(format!("{text:?} names no tenant: 1 to {CHARS_MAX} of a-z, 0-9 and -"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Tenant {
    /// What stands before every name of this tenant.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{}{SEPARATOR}", self.0)
    }

    /// Whose job this is. `None`: nobody's in particular.
    #[must_use]
    pub fn of_job(job: &str) -> Option<Self> {
        job.split_once(SEPARATOR)?.0.parse().ok()
    }

    /// Puts this tenant's name before all names in a batch.
    pub fn own(&self, batch: &mut Batch) {
        let prefix = self.prefix();
        let own = |name: &mut String| name.insert_str(0, &prefix);
        let own_if_told = |name: &mut String| {
            if !name.is_empty() {
                name.insert_str(0, &prefix);
            }
        };
        own(&mut batch.agent_id);
        own_if_told(&mut batch.agent_host);
        for process in &mut batch.processes {
            own(&mut process.key);
            if let Some(identity) = &mut process.identity {
                own(&mut identity.job);
                own_if_told(&mut identity.host);
            }
            for told in &mut process.summations {
                // Groups of the same number in two tenants are two.
                told.session ^= mix(&self.0);
                told.services.iter_mut().for_each(|service| own_if_told(&mut service.host));
                told.contributors.iter_mut().for_each(|one| own_if_told(&mut one.host));
            }
        }
        batch.hardware.iter_mut().for_each(|hardware| own_if_told(&mut hardware.host));
    }

    /// The names in an answer as the agent knows them.
    pub fn disown(&self, reply: &mut IngestReply) {
        let prefix = self.prefix();
        let disown = |name: &mut String| {
            if let Some(bare) = name.strip_prefix(&prefix) {
                *name = bare.to_owned();
            }
        };
        reply.wishes.iter_mut().for_each(|wish| disown(&mut wish.job));
        reply.raised.iter_mut().for_each(disown);
        reply.inquiries.iter_mut().for_each(|inquiry| disown(&mut inquiry.process));
    }
}

/// Takes the separator out of jobs that are nobody's in particular: none of them is ever taken for a tenant's.
pub fn nobodys(batch: &mut Batch) {
    for identity in batch.processes.iter_mut().filter_map(|process| process.identity.as_mut()) {
        while identity.job.contains(SEPARATOR) {
            identity.job = identity.job.replace(SEPARATOR, ":");
        }
    }
}

/// FNV-1a.
fn mix(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

const SEPARATOR: &str = "::";
/// What fits before a name on a screen.
const CHARS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{Identity, Process, Wish};

    use super::*;

    #[test]
    fn names_of_tenants_never_meet() {
        let acme: Tenant = "acme".parse().unwrap();
        let identity = Some(Identity { job: "train".into(), host: "node-a".into(), ..Identity::default() });
        let process = Process { key: "node-a/1/2".into(), identity, ..Process::default() };
        let mut batch = Batch { agent_id: "a".into(), processes: vec![process], ..Batch::default() };
        let mut bare = batch.clone();
        acme.own(&mut batch);
        let identity = batch.processes[0].identity.as_ref().unwrap();
        let names = (&*batch.agent_id, &*batch.processes[0].key, &*identity.job, &*identity.host);
        assert_eq!(names, ("acme::a", "acme::node-a/1/2", "acme::train", "acme::node-a"));
        assert_eq!(Tenant::of_job(&identity.job), Some(acme.clone()));
        bare.processes[0].identity.as_mut().unwrap().job = "acme:::train".into();
        nobodys(&mut bare);
        assert_eq!(Tenant::of_job(&bare.processes[0].identity.as_ref().unwrap().job), None);
        let wish = Wish { job: "acme::train".into(), ..Wish::default() };
        let mut reply =
            IngestReply { wishes: vec![wish], raised: vec!["acme::x".into()], ..IngestReply::default() };
        acme.disown(&mut reply);
        assert_eq!((&*reply.wishes[0].job, &*reply.raised[0]), ("train", "x"));
        for wrong in ["", "Acme", "a::b", "a b", &"x".repeat(33)] {
            assert!(wrong.parse::<Tenant>().is_err(), "{wrong}");
        }
    }
}
