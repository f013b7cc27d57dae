//! The table of GIDs of an RDMA port, from `gids` and `gid_attrs`.

use std::path::Path;

use ringscope_wire::batch::{Gid, GidKind};

use super::files;

/// Entries that are told, as the batch allows; a port has a few for each address of its interface.
const MAX_GIDS: usize = 64;
/// Entries that are looked at: mlx5 shows 256, soft RoCE 1024, of which most are empty.
const MAX_LOOKED_AT: usize = 1024;
/// After so many that are empty there are no more: holes are where an address was taken away.
const MAX_HOLE: usize = 64;

/// The entries of the port's table that are not empty.
pub(super) fn read(port: &Path, link_layer: &str) -> Vec<Gid> {
    let entry = |index: u32| {
        let name = index.to_string();
        let gid = parse(&files::text(&port.join("gids").join(&name))?).filter(|gid| *gid != [0; 16])?;
        let kind = files::text(&port.join("gid_attrs/types").join(&name));
        Some(Gid {
            index,
            gid: gid.to_vec(),
            kind: kind.map_or(GidKind::Unspecified, |kind| self::kind(&kind, link_layer)).into(),
            interface: files::text(&port.join("gid_attrs/ndevs").join(&name)).unwrap_or_default(),
        })
    };
    let names = files::names(&port.join("gids"));
    let indices = names.iter().take(MAX_LOOKED_AT).filter_map(|name| name.parse().ok());
    let (mut found, mut hole) = (Vec::new(), 0);
    for index in indices {
        let entry = entry(index);
        hole = if entry.is_some() { 0 } else { hole + 1 };
        found.extend(entry);
        if hole > MAX_HOLE || found.len() >= MAX_GIDS {
            break;
        }
    }
    found
}

/// Eight groups of four digits: "fe80:0000:0000:0000:5054:00ff:fe00:0101".
fn parse(text: &str) -> Option<[u8; 16]> {
    let address: std::net::Ipv6Addr = text.parse().ok()?;
    Some(address.octets())
}

/// Linux, drivers/infiniband/core/cache.c, `gid_type_str`: InfiniBand and RoCE v1 have one word.
fn kind(text: &str, link_layer: &str) -> GidKind {
    match (text, link_layer) {
        ("RoCE v2", _) => GidKind::RoceV2,
        ("IB/RoCE v1", "InfiniBand") => GidKind::Infiniband,
        ("IB/RoCE v1", "Ethernet") => GidKind::RoceV1,
        _ => GidKind::Unspecified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_empty_or_odd_are_not_told() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        };
        write("gids/0", "fe80:0000:0000:0000:5054:00ff:fe00:0101");
        write("gids/1", "0000:0000:0000:0000:0000:ffff:0a09:0001");
        write("gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
        write("gids/10", "nonsense");
        write("gid_attrs/types/0", "IB/RoCE v1");
        write("gid_attrs/types/1", "RoCE v2");
        write("gid_attrs/ndevs/1", "eth0");
        let told: Vec<_> = read(dir.path(), "Ethernet")
            .into_iter()
            .map(|gid| (gid.index, gid.kind(), gid.interface, gid.gid[15]))
            .collect();
        let expected = [(0, GidKind::RoceV1, String::new(), 1), (1, GidKind::RoceV2, "eth0".to_owned(), 1)];
        assert_eq!(told, expected);
        assert_eq!(kind("IB/RoCE v1", "InfiniBand"), GidKind::Infiniband);
        assert_eq!(kind("something new", "Ethernet"), GidKind::Unspecified);
    }

    #[test]
    fn a_table_of_a_thousand_entries_is_read_to_where_it_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("gids")).unwrap();
        for index in 0..1024 {
            let text = if [0, 5, 60, 1000].contains(&index) { "fe80::1\n" } else { "::\n" };
            std::fs::write(dir.path().join(format!("gids/{index}")), text).unwrap();
        }
        let told: Vec<u32> = read(dir.path(), "Ethernet").into_iter().map(|gid| gid.index).collect();
        assert_eq!(told, [0, 5, 60], "holes are small");
    }

    #[test]
    fn no_more_entries_are_told_than_the_batch_allows() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("gids")).unwrap();
        for index in 0..200 {
            std::fs::write(dir.path().join(format!("gids/{index}")), "fe80::1\n").unwrap();
        }
        let told = read(dir.path(), "Ethernet");
        assert_eq!((told.len(), told[63].index), (MAX_GIDS, 63), "the first ones");
    }
}
