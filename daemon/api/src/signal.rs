//! Signals of Linux in words. Source: signal(7), the numbers of x86 and Arm.

/// A signal's name.
#[must_use]
pub fn name(signal: i32) -> String {
    let known = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        KILL => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    known.to_owned()
}

/// Whether it asks a process to end, as people and schedulers do: SIGHUP, SIGINT, SIGTERM.
#[must_use]
pub const fn asks_to_end(signal: i32) -> bool {
    matches!(signal, 1 | 2 | 15)
}

/// What to do about a process that ended by it, where that is known.
#[must_use]
pub fn hint(signal: i32) -> Option<&'static str> {
    match signal {
        KILL => Some("somebody killed it, or the kernel did because memory ran out: look at `dmesg`"),
        _ if is_crash(signal) => Some("it crashed"),
        24 => Some("its limit of processor time is used up"),
        25 => Some("a file has reached the limit of its size"),
        _ => None,
    }
}

/// Whether a program gets it for an error of its own: SIGILL, SIGBUS, SIGFPE, SIGSEGV.
#[must_use]
pub const fn is_crash(signal: i32) -> bool {
    matches!(signal, 4 | 7 | 8 | 11)
}

pub(super) const KILL: i32 = 9;
