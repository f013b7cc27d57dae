//! NICs of a net plugin, and the path that a connection takes.

use super::super::facts::Hop;
use super::super::pattern::Captures;
use super::Message;

/// `NET/IB/0(3)/GDRDMA(PCI)/Shared`, `P2P/direct pointer/read`, `SHM/direct/direct`, `direct shared memory`.
pub(super) fn hop(path: &str) -> Option<Hop> {
    let mut parts = path.trim().split('/');
    let kind = parts.next().filter(|kind| !kind.is_empty())?;
    let Some(name) = parts.next() else {
        let transport = if kind == "direct shared memory" { "SHM/direct" } else { kind };
        return Some(Hop { transport: transport.to_owned(), ..Hop::default() });
    };
    let mut hop = Hop { transport: [kind, "/", name].concat(), ..Hop::default() };
    if kind == "NET" {
        let device = parts.next()?;
        let (index, proxy) = device.split_once('(').map_or((device, None), |(at, proxy)| (at, Some(proxy)));
        hop.nic_index = Some(index.parse().ok()?);
        hop.proxy_rank = proxy.and_then(|proxy| proxy.strip_suffix(')')?.parse().ok());
    }
    hop.gpu_direct = parts.any(|part| part.starts_with("GDRDMA"));
    Some(hop)
}

/// `[0]mlx5_0:1/IB [1]={[0] mlx5_2:1/IB, [1] mlx5_3:1/IB} [RO]; OOB eth0:…` or `[0]eth0:10.0.0.1<0>`.
pub(super) fn nics(c: &Captures<'_>) -> Option<Message> {
    let net = c.text(0)?.trim_end_matches(':').to_owned();
    let mut rest = c.text(1)?.split("; OOB ").next()?;
    let mut nics = Vec::new();
    while let Some(open) = rest.find('[') {
        let (index, after) = rest[open + 1..].split_once(']')?;
        let (device, next) = match after.strip_prefix("={") {
            Some(merged) => merged.split_once('}').unwrap_or((merged, "")),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        if let (Ok(index), false) = (index.trim().parse(), device.trim().is_empty()) {
            nics.push((index, device_name(device)));
        }
        rest = next;
    }
    Some(Message::Nics { net, nics })
}

/// The name without port, address and link layer; those of a merged device joined by `+`.
fn device_name(text: &str) -> String {
    let name = |part: &str| {
        let part = part.trim().trim_start_matches(['[', ']', ' ']);
        let part = part.split_once("] ").map_or(part, |(_, name)| name);
        part.split(':').next().unwrap_or_default().trim().to_owned()
    };
    text.split(", ").map(name).collect::<Vec<_>>().join("+")
}
