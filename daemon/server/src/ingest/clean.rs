//! Texts from outside, made such that every database takes them: without NUL and what nobody sees, and not endless.

mod calls;

use ringscope_access::Tenant;
use ringscope_api::unseen::is_odd;
use ringscope_model::limits::MAX_NAME_BYTES;
use ringscope_wire::batch::{Batch, BatchError, Connection, HostHardware, SummationMember};

/// Shortens and cleans texts that are only shown. What batches are told apart by must be right as it is.
///
/// # Errors
/// [`BatchError::Malformed`] if an agent or a process has a name that cannot be a key.
pub(super) fn clean(batch: &mut Batch) -> Result<(), BatchError> {
    key("agent_id", &batch.agent_id)?;
    line(&mut batch.agent_host);
    for process in &mut batch.processes {
        key("the key of a process", &process.key)?;
        if let Some(identity) = &mut process.identity {
            let texts = [
                &mut identity.host,
                &mut identity.job,
                &mut identity.k8s_namespace,
                &mut identity.k8s_pod,
                &mut identity.k8s_node,
                &mut identity.k8s_container,
                &mut identity.executable,
            ];
            texts.into_iter().chain(identity.slurm.as_mut().map(|slurm| &mut slurm.node)).for_each(line);
        }
        process.log_lacks.iter_mut().for_each(line);
        process.summations.iter_mut().for_each(summation);
        process.connections.iter_mut().for_each(connection);
        for communicator in &mut process.communicators {
            line(&mut communicator.name);
            line(&mut communicator.gpu);
            line(&mut communicator.log_version);
            line(&mut communicator.completion_lost);
            line(&mut communicator.made_by);
            if communicator.channel_settings.keys().any(|name| !is_clean(name)) {
                communicator.channel_settings.retain(|name, _| is_clean(name));
            }
            for ring in &mut communicator.rings {
                line(&mut ring.transport);
                line(&mut ring.nic);
                line(&mut ring.recv_nic);
            }
            for proof in &mut communicator.evidence {
                line(&mut proof.fact);
                line(&mut proof.file);
                text(&mut proof.text);
            }
        }
    }
    batch.hardware.iter_mut().for_each(hardware);
    calls::clean(batch);
    Ok(())
}

fn summation(told: &mut SummationMember) {
    line(&mut told.failure);
    told.services.iter_mut().for_each(|service| line(&mut service.host));
    told.contributors.iter_mut().for_each(|contributor| line(&mut contributor.host));
    told.stages.iter_mut().for_each(|stage| line(&mut stage.stage));
    told.waits.iter_mut().for_each(|wait| line(&mut wait.tensor));
}

fn connection(told: &mut Connection) {
    line(&mut told.error);
    line(&mut told.file);
    for end in [&mut told.local, &mut told.remote].into_iter().flatten() {
        line(&mut end.device);
        line(&mut end.host);
    }
}

fn hardware(told: &mut HostHardware) {
    line(&mut told.host);
    line(&mut told.queue_pairs_lack);
    for nic in &mut told.nics {
        let texts = [
            &mut nic.name,
            &mut nic.state,
            &mut nic.physical_state,
            &mut nic.link_layer,
            &mut nic.interface,
            &mut nic.pci,
            &mut nic.model,
            &mut nic.state_file,
        ];
        texts.into_iter().chain(&mut nic.pci_path).for_each(line);
        let counters = [&mut nic.errors, &mut nic.retransmits, &mut nic.failures, &mut nic.congestion];
        counters.into_iter().flatten().for_each(|counter| line(&mut counter.name));
        nic.gids.iter_mut().for_each(|gid| line(&mut gid.interface));
    }
    for gpu in &mut told.gpus {
        let texts = [&mut gpu.name, &mut gpu.uuid, &mut gpu.pci];
        texts.into_iter().chain(&mut gpu.pci_path).for_each(line);
    }
}

fn key(what: &str, key: &str) -> Result<(), BatchError> {
    if key.len() > KEY_BYTES_MAX || key.contains('\0') {
        return Err(BatchError::Malformed(format!("{what} has a NUL or more than {KEY_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn is_clean(text: &str) -> bool {
    text.len() <= TEXT_BYTES_MAX && !text.contains('\0')
}

fn text(text: &mut String) {
    if is_clean(text) {
        return;
    }
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    }
}

/// One line that every database and every terminal takes, and that looks like nothing else.
fn line(text: &mut String) {
    if text.chars().any(is_odd) {
        *text = text.chars().map(|c| if is_odd(c) { '\u{fffd}' } else { c }).collect();
    }
    self::text(text);
}

/// The model's bound, with room for the tenant's name before it. Three of these fit into an index entry of Postgres (2704 bytes).
const KEY_BYTES_MAX: usize = MAX_NAME_BYTES - Tenant::PREFIX_BYTES_MAX;
/// Names of hosts have at most 253 bytes, names of jobs hardly more.
const TEXT_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{
        Communicator, ConnectionEnd, Evidence, Gid, Gpu, Identity, Nic, NicCounter, Process, RingPosition,
        SummationContributor, SummationService, SummationStage, SummationWait,
    };

    use super::*;

    fn batch(key: &str, job: &str) -> Batch {
        let identity = Some(Identity { job: job.into(), ..Identity::default() });
        let process = Process { key: key.into(), identity, ..Process::default() };
        Batch { agent_id: "a".into(), processes: vec![process], ..Batch::default() }
    }

    fn job(batch: &Batch) -> &str {
        &batch.processes[0].identity.as_ref().unwrap().job
    }

    #[test]
    fn texts_become_storable() {
        let mut odd = batch("k", "tr\0in");
        clean(&mut odd).unwrap();
        assert_eq!(job(&odd), "tr\u{fffd}in");
        let mut turned = batch("k", "t\u{202e}rain\u{200b}");
        clean(&mut turned).unwrap();
        assert_eq!(job(&turned), "t\u{fffd}rain\u{fffd}");
        let mut long = batch("k", &"ä".repeat(1000));
        clean(&mut long).unwrap();
        assert_eq!(job(&long).len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn what_logs_say_becomes_storable() {
        let odd = || format!("a\0{}", "b".repeat(1000));
        let mut batch = batch("k", "j");
        let process = &mut batch.processes[0];
        process.log_lacks = vec![odd()];
        process.communicators = vec![Communicator {
            made_by: odd(),
            log_version: odd(),
            completion_lost: odd(),
            channel_settings: [(odd(), 1), ("NCCL_MAX_NCHANNELS".to_owned(), 2)].into(),
            rings: vec![RingPosition { recv_nic: odd(), ..RingPosition::default() }],
            evidence: vec![Evidence { fact: odd(), file: odd(), line: 3, text: odd() }],
            ..Communicator::default()
        }];
        clean(&mut batch).unwrap();
        let process = &batch.processes[0];
        let communicator = &process.communicators[0];
        let proof = &communicator.evidence[0];
        for text in [
            &process.log_lacks[0],
            &communicator.made_by,
            &communicator.log_version,
            &communicator.completion_lost,
            &communicator.rings[0].recv_nic,
            &proof.fact,
            &proof.file,
            &proof.text,
        ] {
            assert!(text.starts_with("a\u{fffd}b") && text.len() == TEXT_BYTES_MAX, "{text}");
        }
        assert_eq!(communicator.channel_settings, [("NCCL_MAX_NCHANNELS".to_owned(), 2)].into());
    }

    #[test]
    fn what_is_said_of_hardware_becomes_storable() {
        let odd = || format!("a\0{}", "b".repeat(1000));
        let errors = vec![NicCounter { name: odd(), value: 1 }];
        let gids = vec![Gid { interface: odd(), ..Gid::default() }];
        let nic = Nic {
            name: odd(),
            state_file: odd(),
            pci_path: vec![odd()],
            retransmits: errors.clone(),
            failures: errors.clone(),
            congestion: errors.clone(),
            errors,
            gids,
            ..Nic::default()
        };
        let gpu = Gpu { uuid: odd(), pci_path: vec![odd()], ..Gpu::default() };
        let told = HostHardware {
            host: odd(),
            nics: vec![nic],
            gpus: vec![gpu],
            queue_pairs_lack: odd(),
            ..HostHardware::default()
        };
        let mut batch = Batch { agent_id: "a".into(), hardware: vec![told], ..Batch::default() };
        clean(&mut batch).unwrap();
        let told = &batch.hardware[0];
        let (nic, gpu) = (&told.nics[0], &told.gpus[0]);
        let texts = [&told.host, &nic.name, &nic.state_file, &nic.pci_path[0], &nic.errors[0].name];
        let counters = [&nic.retransmits, &nic.failures, &nic.congestion].map(|counted| &counted[0].name);
        let others = [&gpu.uuid, &gpu.pci_path[0], &nic.gids[0].interface, &told.queue_pairs_lack];
        for text in texts.into_iter().chain(counters).chain(others) {
            assert!(text.starts_with("a\u{fffd}b") && text.len() == TEXT_BYTES_MAX, "{text}");
        }
    }

    #[test]
    fn what_is_said_of_summation_becomes_storable() {
        let odd = || format!("a\0{}", "b".repeat(1000));
        let told = SummationMember {
            failure: odd(),
            services: vec![SummationService { host: odd(), ..SummationService::default() }],
            contributors: vec![SummationContributor { host: odd(), ..SummationContributor::default() }],
            stages: vec![SummationStage { stage: odd(), ..SummationStage::default() }],
            waits: vec![SummationWait { tensor: odd(), ..SummationWait::default() }],
            ..SummationMember::default()
        };
        let mut batch = batch("k", "j");
        batch.processes[0].summations = vec![told];
        clean(&mut batch).unwrap();
        let told = &batch.processes[0].summations[0];
        let texts = [&told.failure, &told.services[0].host, &told.contributors[0].host];
        for text in texts.into_iter().chain([&told.stages[0].stage, &told.waits[0].tensor]) {
            assert!(text.starts_with("a\u{fffd}b") && text.len() == TEXT_BYTES_MAX, "{text}");
        }
    }

    #[test]
    fn what_is_said_of_connections_becomes_storable() {
        let odd = || format!("a\0{}", "b".repeat(1000));
        let end = Some(ConnectionEnd { device: odd(), host: odd(), ..ConnectionEnd::default() });
        let told = Connection {
            error: odd(),
            file: odd(),
            local: end.clone(),
            remote: end,
            ..Connection::default()
        };
        let mut batch = batch("k", "j");
        batch.processes[0].connections = vec![told];
        clean(&mut batch).unwrap();
        let told = &batch.processes[0].connections[0];
        let (local, remote) = (told.local.as_ref().unwrap(), told.remote.as_ref().unwrap());
        for text in [&told.error, &told.file, &local.device, &remote.device, &remote.host] {
            assert!(text.starts_with("a\u{fffd}b") && text.len() == TEXT_BYTES_MAX, "{text}");
        }
    }

    #[test]
    fn keys_are_refused_instead() {
        assert!(clean(&mut batch(&"x".repeat(KEY_BYTES_MAX), "j")).is_ok());
        for key in ["a\0b".to_owned(), "x".repeat(KEY_BYTES_MAX + 1)] {
            assert!(clean(&mut batch(&key, "j")).is_err());
        }
    }
}
