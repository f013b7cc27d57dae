//! What each tenant sees: a hub of its own, which hears only what its own agents send. So there is nothing to filter, and nothing
//! that a view could forget to.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use ringscope_access::{Sender, Tenant};
use ringscope_api::clock::Timestamp;
use ringscope_store::Restored;
use ringscope_wire::batch::{Batch, Inquiry};

use super::{Beyond, Hub, Take, Taken};

/// The hubs of tenants.
#[derive(Default)]
pub(super) struct Tenants(Mutex<BTreeMap<Tenant, Arc<Hub>>>);

impl Tenants {
    pub(super) fn n(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(super) fn all(&self) -> Vec<Arc<Hub>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

impl Hub {
    /// What this tenant sees.
    #[must_use]
    pub fn of_tenant(&self, tenant: &Tenant) -> Arc<Self> {
        let mut hubs = self.tenants.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hub = hubs.entry(tenant.clone()).or_insert_with(|| {
            let hub = Self::new(self.sample_interval);
            hub.set_look(self.look.load(Ordering::Relaxed));
            Arc::new(hub)
        });
        Arc::clone(hub)
    }

    /// Applies a batch of a tenant, whose names it has; what its sender has no share for is taken out of it.
    pub fn ingest_of(&self, tenant: &Tenant, sender: &Sender, batch: &mut Batch, now: Timestamp) -> Taken {
        let own = self.of_tenant(tenant);
        let mut taken = self.ingest_from(sender, batch, now);
        if let Some(beyond) = &taken.beyond {
            own.forget_too(beyond, now);
            own.note_refused(beyond, now);
        }
        let seen = own.ingest(batch, now);
        // Whichever has forgotten the agent is told everything once more.
        taken.reply.resend_all |= seen.reply.resend_all;
        // Both judge the job, and mostly ask the same. Where others' hangs leave everybody's hub no question, the tenant's asks.
        for inquiry in seen.reply.inquiries {
            if !taken.reply.inquiries.iter().any(|put| is_same(put, &inquiry)) {
                taken.reply.inquiries.push(inquiry);
            }
        }
        taken
    }

    /// Whether who asks now for this tenant would wait.
    #[must_use]
    pub fn is_busy_for(&self, tenant: Option<&Tenant>) -> bool {
        self.is_busy() || tenant.is_some_and(|tenant| self.of_tenant(tenant).is_busy())
    }

    fn note_refused(&self, beyond: &Beyond, now: Timestamp) {
        self.lock().model.note_refused(&beyond.to_string(), beyond.n, now);
        self.versions.changed();
    }

    /// [`Hub::not_understood`] of an agent of a tenant, whose name its id and host have.
    pub fn not_understood_of(&self, tenant: &Tenant, agent_id: &str, host: &str, why: &str, now: Timestamp) {
        self.not_understood(agent_id, host, why, now);
        self.of_tenant(tenant).not_understood(agent_id, host, why, now);
    }

    /// What time alone changes for tenants; the store has all of it from everybody's hub.
    pub(super) fn tick_tenants(&self, now: Timestamp) {
        for hub in self.tenants.all() {
            hub.tick(now);
            drop(hub.take_unsaved(Take::All, now));
        }
    }

    /// Looks again at tenants' jobs, and tells their subscribers what changed.
    pub(super) fn look_again_at_tenants(&self, now: Timestamp) {
        for hub in self.tenants.all() {
            hub.look_again(now);
            hub.publish_change();
        }
    }

    /// Gives each tenant what the store kept of its jobs.
    pub(super) fn restore_tenants(&self, restored: &Restored, heard: &[(String, Timestamp)], now: Timestamp) {
        let job =
            |process: &ringscope_wire::batch::Process| process.identity.as_ref().map(|one| one.job.clone());
        let mut by_tenant: BTreeMap<Tenant, Restored> = BTreeMap::new();
        for process in &restored.processes {
            if let Some(tenant) = job(process).and_then(|job| Tenant::of_name(&job)) {
                by_tenant.entry(tenant).or_default().processes.push(process.clone());
            }
        }
        for memory in &restored.pace_memories {
            if let Some(tenant) = Tenant::of_name(&memory.0) {
                by_tenant.entry(tenant).or_default().pace_memories.push(memory.clone());
            }
        }
        for finding in &restored.findings {
            if let Some(tenant) = of_either(&finding.job, &finding.host) {
                by_tenant.entry(tenant).or_default().findings.push(finding.clone());
            }
        }
        for incident in &restored.incidents {
            if let Some(tenant) = of_either(&incident.job, &incident.host) {
                by_tenant.entry(tenant).or_default().incidents.push(incident.clone());
            }
        }
        for (tenant, restored) in by_tenant {
            self.of_tenant(&tenant).restore_own(restored, heard, now);
        }
    }
}

/// Whose a finding is; one of hardware names a host alone.
fn of_either(job: &str, host: &str) -> Option<Tenant> {
    Tenant::of_name(job).or_else(|| Tenant::of_name(host))
}

/// Whether two ask the same, whatever they are called.
fn is_same(one: &Inquiry, other: &Inquiry) -> bool {
    let of_other = Inquiry { id: other.id.clone(), ..one.clone() };
    of_other == *other
}
