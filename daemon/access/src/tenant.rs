//! Tenants: who is a tenant sees what its own agents sent. Their names stand before those of jobs, hosts, agents and processes,
//! so that nothing that one says is ever about what another has, whatever names they give.

use std::fmt;
use std::str::FromStr;

use ringscope_wire::batch::{Batch, IngestReply};
use sha2::{Digest as _, Sha256};

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
    /// Bytes of the longest [`Tenant::prefix`].
    pub const PREFIX_BYTES_MAX: usize = CHARS_MAX + SEPARATOR.len();

    /// What stands before every name of this tenant.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{}{SEPARATOR}", self.0)
    }

    /// Whose job or host this is. `None`: nobody's in particular.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        name.split_once(SEPARATOR)?.0.parse().ok()
    }

    /// Puts this tenant's name before all names in a batch.
    pub fn own(&self, batch: &mut Batch) {
        let prefix = self.prefix();
        names(batch, &mut |name| name.insert_str(0, &prefix));
        for told in batch.processes.iter_mut().flat_map(|process| &mut process.summations) {
            told.session = self.session(told.session);
        }
    }

    /// Groups of the same session in two tenants are two, whatever number somebody chooses.
    fn session(&self, session: u64) -> u64 {
        let hash = Sha256::new().chain_update(session.to_le_bytes()).chain_update(&self.0).finalize();
        hash.into_iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(byte))
    }

    /// The names in an answer as the agent knows them; of others' jobs it is told nothing.
    pub fn disown(&self, reply: &mut IngestReply) {
        let prefix = self.prefix();
        reply.wishes.retain(|wish| wish.job.starts_with(&prefix));
        reply.raised.retain(|job| job.starts_with(&prefix));
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

/// Leaves in the answer to an agent of nobody's in particular what is no tenant's.
pub fn without_tenants(reply: &mut IngestReply) {
    reply.wishes.retain(|wish| !wish.job.contains(SEPARATOR));
    reply.raised.retain(|job| !job.contains(SEPARATOR));
}

/// Takes the separator out of the names of what is nobody's in particular: none of them is ever taken for a tenant's.
pub fn nobodys(batch: &mut Batch) {
    names(batch, &mut |name| {
        while name.contains(SEPARATOR) {
            *name = name.replace(SEPARATOR, ":");
        }
    });
}

/// Every name by which a batch says of whom it is, as far as it has them.
fn names(batch: &mut Batch, change: &mut impl FnMut(&mut String)) {
    let mut if_told = |name: &mut String| {
        if !name.is_empty() {
            change(name);
        }
    };
    if_told(&mut batch.agent_host);
    batch.hardware.iter_mut().for_each(|hardware| if_told(&mut hardware.host));
    for process in &mut batch.processes {
        if let Some(identity) = &mut process.identity {
            if_told(&mut identity.host);
        }
        for remote in process.connections.iter_mut().filter_map(|one| one.remote.as_mut()) {
            if_told(&mut remote.host);
        }
        for told in &mut process.summations {
            told.services.iter_mut().for_each(|service| if_told(&mut service.host));
            told.contributors.iter_mut().for_each(|one| if_told(&mut one.host));
        }
    }
    // These are told always, be they empty.
    change(&mut batch.agent_id);
    for process in &mut batch.processes {
        change(&mut process.key);
        if let Some(identity) = &mut process.identity {
            change(&mut identity.job);
        }
    }
}

const SEPARATOR: &str = "::";
/// What fits before a name on a screen.
const CHARS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{Identity, Process, Wish};

    use super::*;

    #[test]
    fn sessions_of_tenants_never_meet() {
        let [acme, globex] = ["acme", "globex"].map(|name| name.parse::<Tenant>().unwrap());
        assert_eq!(acme.session(7), acme.session(7));
        assert_ne!(acme.session(7), globex.session(7));
        // Who knows how theirs and another's session are shown cannot choose one that is shown as the other's.
        let chosen = 7 ^ acme.session(7) ^ globex.session(7);
        assert_ne!(acme.session(chosen), globex.session(7));
    }

    #[test]
    fn an_answer_tells_of_no_other_tenants_jobs() {
        let jobs = ["acme::train", "globex::secret", "llama"];
        let told = IngestReply {
            wishes: jobs.map(|job| Wish { job: job.into(), ..Wish::default() }).into(),
            raised: jobs.map(str::to_owned).into(),
            ..IngestReply::default()
        };
        let names = |reply: &IngestReply| {
            let wished = reply.wishes.iter().map(|wish| wish.job.clone());
            (wished.collect::<Vec<_>>(), reply.raised.clone())
        };
        let mut acmes = told.clone();
        "acme".parse::<Tenant>().unwrap().disown(&mut acmes);
        assert_eq!(names(&acmes), (vec!["train".to_owned()], vec!["train".to_owned()]));
        let mut nobodys = told;
        without_tenants(&mut nobodys);
        assert_eq!(names(&nobodys), (vec!["llama".to_owned()], vec!["llama".to_owned()]));
    }

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
        assert_eq!(Tenant::of_name(&identity.job), Some(acme.clone()));
        let mut forged = batch.clone();
        bare.processes[0].identity.as_mut().unwrap().job = "acme:::train".into();
        for batch in [&mut bare, &mut forged] {
            nobodys(batch);
            let told = format!("{batch:?}");
            assert!(!told.contains("::"), "nothing of nobody's is a tenant's: {told}");
        }
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
