//! Numbers, times and lists as people say them: in the terminal, and in messages. Pure; the page says the same
//! (`web/src/pure/format.ts`).

use std::fmt::Display;
use std::time::Duration;

use crate::clock::Timestamp;

/// Of a program that has not called the library: that is neither healthy nor a fault, for nothing shows which it is.
pub const NO_CALL_YET: &str =
    "no call of NCCL so far, so nothing can be said: a program on Gloo or MPI alone makes none";

/// Why nobody can say how a process does whose collector is of another release than its agent.
#[must_use]
pub fn other_segment_version(written: u32, read: Option<u32>) -> String {
    let collector = format!("its collector writes segments of version {written}");
    match read {
        // The other way round it would say what the job is not to blame for.
        Some(read) if read < written => format!(
            "{collector}, the older agent of its host reads {read}; install on that host the release that the job has"
        ),
        Some(read) => format!(
            "{collector}, the agent of its host reads {read}; restart the job with the library of the agent's release"
        ),
        None => format!(
            "{collector}, which the agent of its host does not read; install one release on that host and restart the job"
        ),
    }
}

/// "0.4 s", "41 s", "14 min", "3 h 05 min", "2 d 4 h".
#[must_use]
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 9.95 {
        return format!("{seconds:.1} s");
    }
    if seconds < 99.5 {
        return format!("{seconds:.0} s");
    }
    let minutes = (time.as_secs() + 30) / 60;
    let hours = minutes / 60;
    match (minutes, hours) {
        (..100, _) => format!("{minutes} min"),
        (_, ..48) => format!("{hours} h {:02} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// Reads a duration: a number and `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
/// What was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number and a unit, e.g. 250ms, 5s, 30m, 12h or 7d".to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let unit_ms = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(expected()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(expected)
}

/// "2026-11-22 14:03:07 UTC".
#[must_use]
pub fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    match (text.get(..10), text.get(11..19)) {
        (Some(day), Some(time)) => format!("{day} {time} UTC"),
        _ => text,
    }
}

/// What is said of calls whose end the collector cannot tell for this reason, and until when that is so.
#[must_use]
pub fn ends_not_known(why: &str) -> String {
    format!(
        "of some of its calls it is not known whether they are over, because {why}: a call made later settles it when it \
         completes"
    )
}

/// "1 host", "3 hosts", "2 processes".
#[must_use]
pub fn plural(count: usize, noun: &str) -> String {
    let ending = match count {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// "a, b and c"; of more than `limit` the last are counted.
#[must_use]
pub fn list<I>(items: I, limit: usize) -> String
where
    I: IntoIterator<Item: Display, IntoIter: ExactSizeIterator>,
{
    let items = items.into_iter();
    let n = items.len();
    let named = if n > limit { limit.saturating_sub(1) } else { n };
    let mut names: Vec<String> = items.take(named).map(|item| item.to_string()).collect();
    let last = if n > named { Some(format!("{} more", n - named)) } else { names.pop() };
    match (names.join(", "), last.unwrap_or_default()) {
        (names, last) if names.is_empty() => last,
        (names, last) => format!("{names} and {last}"),
    }
}

/// "rank 3", "ranks 0 and 4", "ranks 0 to 7", "ranks 0, 2, 4, 6 and 5 more". Ascending.
#[must_use]
pub fn ranks(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".to_owned(),
        [only] => format!("rank {only}"),
        [first, .., last]
            if ranks.len() > 2 && last.checked_sub(*first).is_some_and(|n| n as usize + 1 == ranks.len()) =>
        {
            format!("ranks {first} to {last}")
        }
        _ => format!("ranks {}", list(ranks, RANKS_NAMED)),
    }
}

/// The text with its first letter a capital.
#[must_use]
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}

/// Bytes with a binary prefix.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// Bytes per second as "1.24 GB/s", "830 MB/s", "12 kB/s".
#[must_use]
pub fn rate(bytes_per_s: f64) -> String {
    let (value, unit) = match bytes_per_s {
        value if value >= 0.9995e9 => (value / 1e9, "GB/s"),
        value if value >= 0.9995e6 => (value / 1e6, "MB/s"),
        value => (value / 1e3, "kB/s"),
    };
    if value == 0.0 {
        "0".to_owned()
    } else if value < 9.995 {
        format!("{value:.2} {unit}")
    } else if value < 99.95 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// What stands for the host of a rank of which only a dump tells that does not name it.
#[must_use]
pub fn host_of_dump(global_rank: u32) -> String {
    format!("rank {global_rank}{HOST_NOT_SAID}")
}

/// Whether it names a host.
#[must_use]
pub fn is_host(name: &str) -> bool {
    !name.ends_with(HOST_NOT_SAID)
}

/// Ranks that one sentence names.
const RANKS_NAMED: usize = 5;

const HOST_NOT_SAID: &str = "'s dump, host not said";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_the_page_says_them() {
        for (seconds, expected) in [
            (0.44, "0.4 s"),
            (41.0, "41 s"),
            (840.0, "14 min"),
            (11_100.0, "3 h 05 min"),
            (187_200.0, "2 d 4 h"),
        ] {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), expected);
        }
    }

    #[test]
    fn lists_are_cut_and_counted() {
        assert_eq!(list(&[""; 0], 3), "");
        assert_eq!(list(&["a"], 3), "a");
        assert_eq!(list(&["a", "b", "c"], 3), "a, b and c");
        assert_eq!(list(&["a", "b", "c", "d"], 3), "a, b and 2 more");
        assert_eq!((plural(1, "host"), plural(0, "job")), ("1 host".into(), "0 jobs".into()));
        assert_eq!(plural(2, "process"), "2 processes");
    }

    #[test]
    fn sizes_have_binary_prefixes_and_rates_decimal_ones() {
        for (bytes, expected) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB")] {
            assert_eq!(size(bytes), expected);
        }
        for (per_s, expected) in
            [(0.0, "0"), (12_340.0, "12.3 kB/s"), (999_999.0, "1.00 MB/s"), (1.5e11, "150 GB/s")]
        {
            assert_eq!(rate(per_s), expected);
        }
    }
}
