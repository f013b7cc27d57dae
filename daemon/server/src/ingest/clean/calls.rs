//! What is said of calls, of processes that were looked at and by kernels: programs and machines choose these texts, and
//! people read them in terminals, so each is one line without what nobody sees.

use ringscope_wire::batch::{Batch, KernelMessage, Look, Process};

use super::line;

/// Shortens and cleans these texts.
pub(super) fn clean(batch: &mut Batch) {
    batch.processes.iter_mut().for_each(process);
    batch.kernel.iter_mut().for_each(message);
    if let Some(reading) = &mut batch.kernel_reading {
        line(&mut reading.how);
    }
    line(&mut batch.cannot_watch);
    line(&mut batch.not_watched);
}

fn process(process: &mut Process) {
    line(&mut process.told_by_peers);
    process.open_calls.iter_mut().for_each(|call| line(&mut call.function));
    for communicator in &mut process.communicators {
        line(&mut communicator.error_function);
        for warning in &mut communicator.warnings {
            [&mut warning.fact, &mut warning.file, &mut warning.text].into_iter().for_each(line);
        }
    }
    if let Some(activity) = &mut process.activity {
        line(&mut activity.state);
    }
    if let Some(told) = &mut process.look {
        look(told);
    }
}

fn look(told: &mut Look) {
    line(&mut told.inquiry);
    told.lacks.iter_mut().for_each(line);
    for thread in &mut told.threads {
        let texts = [
            &mut thread.name,
            &mut thread.state,
            &mut thread.wait_channel,
            &mut thread.syscall,
            &mut thread.subject,
        ];
        texts.into_iter().chain(&mut thread.python).chain(&mut thread.native).for_each(line);
    }
}

fn message(told: &mut KernelMessage) {
    let texts = [&mut told.boot_id, &mut told.text, &mut told.meaning, &mut told.pci, &mut told.nic];
    texts.into_iter().for_each(line);
}

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{Activity, Communicator, Evidence, KernelReading, OpenCall, Thread};

    use super::*;

    #[test]
    fn what_people_read_has_no_control_characters_and_an_end() {
        let odd = || format!("a\x1b[2J\0{}", "b".repeat(1000));
        let warning = Evidence { text: odd(), ..Evidence::default() };
        let thread = Thread { python: vec![odd()], native: vec![odd()], subject: odd(), ..Thread::default() };
        let look = Look { threads: vec![thread], lacks: vec![odd()], ..Look::default() };
        let mut batch = Batch {
            processes: vec![Process {
                open_calls: vec![OpenCall { function: odd(), ..OpenCall::default() }],
                communicators: vec![Communicator { warnings: vec![warning], ..Communicator::default() }],
                activity: Some(Activity { state: odd(), ..Activity::default() }),
                look: Some(look),
                ..Process::default()
            }],
            kernel: vec![KernelMessage { text: odd(), meaning: odd(), ..KernelMessage::default() }],
            kernel_reading: Some(KernelReading { how: odd(), ..KernelReading::default() }),
            cannot_watch: odd(),
            not_watched: odd(),
            ..Batch::default()
        };
        clean(&mut batch);
        let process = &batch.processes[0];
        let look = process.look.as_ref().unwrap();
        let thread = &look.threads[0];
        let kernel = &batch.kernel[0];
        let texts = [
            &process.open_calls[0].function,
            &process.communicators[0].warnings[0].text,
            &process.activity.as_ref().unwrap().state,
            &look.lacks[0],
            &thread.python[0],
            &thread.native[0],
            &thread.subject,
            &kernel.text,
            &kernel.meaning,
            &batch.kernel_reading.as_ref().unwrap().how,
            &batch.cannot_watch,
            &batch.not_watched,
        ];
        for text in texts {
            assert!(text.starts_with("a\u{fffd}[2J\u{fffd}b") && text.len() <= 512, "{text}");
        }
    }
}
