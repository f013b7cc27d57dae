//! Numbers, lists and rings in words.

use ringscope_api::Ring;

/// The ring as its hosts, each with its ranks in the order of the ring.
pub(super) fn drawn(ring: &Ring) -> String {
    let mut hosts: Vec<(&str, Vec<u32>)> = Vec::new();
    for hop in &ring.order {
        match hosts.last_mut() {
            Some((host, ranks)) if *host == hop.host => ranks.push(hop.rank),
            _ => hosts.push((&hop.host, vec![hop.rank])),
        }
    }
    let drawn: Vec<String> = (hosts.iter().take(HOSTS_DRAWN))
        .map(|(host, ranks)| {
            let more = ranks.len().saturating_sub(RANKS_DRAWN);
            let mut ranks: Vec<String> = ranks.iter().take(RANKS_DRAWN).map(ToString::to_string).collect();
            if more > 0 {
                ranks.push(format!("and {more} more"));
            }
            format!("{host}[{}]", ranks.join(" "))
        })
        .collect();
    let more = if hosts.len() > HOSTS_DRAWN {
        format!(" -> {} more", hosts.len() - HOSTS_DRAWN)
    } else {
        String::new()
    };
    let open = ring.problem.as_ref().map(|problem| format!(" (open: {problem})")).unwrap_or_default();
    format!("{}{more}{}{open}", drawn.join(" -> "), over(ring))
}

/// The transports of its hops; with how many tell theirs, if not all do.
fn over(ring: &Ring) -> String {
    let mut via: Vec<&str> = Vec::new();
    let known = ring.order.iter().filter_map(|hop| hop.transport.as_deref());
    let known = known.inspect(|transport| {
        if !via.contains(transport) {
            via.push(transport);
        }
    });
    let n = known.count();
    if n == 0 {
        return String::new();
    }
    let hops = ring.order.len();
    let part =
        if n < hops { format!(" on {n} of {hops} hops, the others are not told") } else { String::new() };
    format!(" over {}{part}", via.join(", "))
}

/// `0-3, 6` of 0, 1, 2, 3, 6.
pub(super) fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let words = ranges.iter().map(
        |(first, last)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        },
    );
    words.collect::<Vec<_>>().join(", ")
}

/// The text without what goes beyond two lines or so.
pub(super) fn cut(text: &str) -> String {
    if text.chars().count() <= PROOF_COLUMNS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(PROOF_COLUMNS).collect();
    format!("{kept}...")
}

/// "a, b and 3 more".
pub(super) fn few(names: &[&str], n: usize) -> String {
    let more = names.len().saturating_sub(n);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names[..names.len().min(n)].join(", "))
}

/// "1 host", "3 hosts".
pub(super) fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A line that proves something is cut later than others: its end may be what matters.
const PROOF_COLUMNS: usize = 150;
/// Hosts of a ring or a list.
pub(super) const HOSTS_DRAWN: usize = 8;
/// Ranks of one host in a ring; more are on none, unless the host is a rack.
const RANKS_DRAWN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 6]), "0-3, 6");
        assert_eq!(ranges(&[4]), "4");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn a_ring_says_how_much_of_it_is_known() {
        let ring = |transports: [Option<&str>; 3]| {
            let hop = |(rank, transport): (usize, Option<&str>)| {
                let host = if rank < 2 { "a" } else { "b" };
                serde_json::json!({"rank": rank, "host": host, "transport": transport, "next": (rank + 1) % 3})
            };
            let order: Vec<_> = transports.into_iter().enumerate().map(hop).collect();
            let ring =
                serde_json::json!({"channel": 0, "complete": true, "missing_ranks": [], "order": order});
            drawn(&serde_json::from_value(ring).unwrap())
        };
        assert_eq!(ring([None, None, None]), "a[0 1] -> b[2]");
        assert_eq!(ring([Some("SHM"), Some("NET/IB"), Some("NET/IB")]), "a[0 1] -> b[2] over SHM, NET/IB");
        assert_eq!(
            ring([Some("SHM"), None, None]),
            "a[0 1] -> b[2] over SHM on 1 of 3 hops, the others are not told"
        );
    }
}
