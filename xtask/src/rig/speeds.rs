//! How fast each link is while it has something to carry, by the kernel's own account of each connection: bytes
//! acknowledged by the time in which bytes were on their way, less the time in which the receiver took none.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::network::{NICS, Network, address};

/// Sending host, NIC, receiving host.
pub(crate) type Link = (usize, usize, usize);

/// The account of all links, cumulative.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account(BTreeMap<Link, Carried>);

#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    bytes: f64,
    /// Of the connection that was busy for longest: those of one link share it at the same time.
    busy_s: f64,
}

impl Account {
    /// Asks the kernels of all hosts.
    pub(crate) fn of(network: &Network) -> Result<Self> {
        let mut account = Self::default();
        for host in 0..network.n_hosts() {
            let output = network.command_on(host, Path::new("ss")).args(["-tinHO"]).output().context("ss")?;
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                account.add(line, network.n_hosts());
            }
        }
        Ok(account)
    }

    fn add(&mut self, line: &str, n_hosts: usize) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let end = |index: usize| words.get(index).and_then(|end| place(end, n_hosts));
        let (Some((from, nic)), Some((to, _))) = (end(3), end(4)) else { return };
        let bytes = number(&words, "bytes_acked:");
        let busy_ms = number(&words, "busy:") - number(&words, "rwnd_limited:");
        let carried = self.0.entry((from, nic, to)).or_default();
        carried.bytes += bytes;
        carried.busy_s = carried.busy_s.max(busy_ms / 1e3);
    }

    /// Bytes per second of each link since `before`; of those that were busy for long enough to tell.
    pub(crate) fn speeds_since(&self, before: &Self) -> BTreeMap<Link, f64> {
        let speed = |(link, now): (&Link, &Carried)| {
            let was = before.0.get(link).copied().unwrap_or_default();
            let busy_s = now.busy_s - was.busy_s;
            (busy_s >= LEAST_BUSY_S).then(|| (*link, (now.bytes - was.bytes) / busy_s))
        };
        self.0.iter().filter_map(speed).collect()
    }
}

/// The slowest link, if it is far slower than the median of all.
pub(crate) fn slow(speeds: &BTreeMap<Link, f64>) -> Option<Link> {
    let mut sorted: Vec<f64> = speeds.values().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let median = *sorted.get(sorted.len() / 2)?;
    let (link, speed) = speeds.iter().min_by(|one, other| one.1.total_cmp(other.1))?;
    (*speed < FAR_SLOWER * median).then_some(*link)
}

/// Host and NIC of an end of a connection of the job.
fn place(end: &str, n_hosts: usize) -> Option<(usize, usize)> {
    let (ip, _) = end.rsplit_once(':')?;
    let places = (0..n_hosts).flat_map(|host| (0..NICS).map(move |nic| (host, nic)));
    places.into_iter().find(|(host, nic)| address(*host, *nic) == ip)
}

/// The number behind `name`; `rwnd_limited:12ms(3.4%)` is 12. What the kernel does not say is 0.
fn number(words: &[&str], name: &str) -> f64 {
    let text = words.iter().find_map(|word| word.strip_prefix(name)).unwrap_or("0");
    let digits = text.split(|one: char| !one.is_ascii_digit() && one != '.').next().unwrap_or("0");
    digits.parse().unwrap_or(0.0)
}

/// Below, a speed says more of single packets than of the link.
const LEAST_BUSY_S: f64 = 0.1;
/// Between half of the rate, which is to be found, and what a busy machine does to a healthy link.
const FAR_SLOWER: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    fn account(lines: &[&str]) -> Account {
        let mut account = Account::default();
        lines.iter().for_each(|line| account.add(line, 3));
        account
    }

    #[test]
    fn speed_is_what_was_carried_by_the_time_the_network_had_it() {
        let before = account(&["ESTAB 0 0 10.200.0.1:40 10.200.0.2:50 cubic bytes_acked:1000 busy:500ms"]);
        let after = account(&[
            "ESTAB 0 0 10.200.0.1:40 10.200.0.2:50 cubic bytes_acked:5000 busy:1700ms rwnd_limited:200ms(9%)",
            "ESTAB 0 0 10.200.9.1:40 10.200.9.254:9440 cubic bytes_acked:9 busy:10ms",
        ]);
        assert_eq!(after.speeds_since(&before), BTreeMap::from([((0, 0, 1), 4000.0)]));
    }

    #[test]
    fn half_of_the_others_is_slow_and_three_quarters_are_not() {
        let speeds =
            |of_first: f64| BTreeMap::from([((0, 0, 1), of_first), ((1, 0, 2), 10.0), ((2, 0, 0), 11.0)]);
        assert_eq!(slow(&speeds(5.0)), Some((0, 0, 1)));
        assert_eq!(slow(&speeds(7.5)), None);
        assert_eq!(slow(&BTreeMap::new()), None);
    }
}
