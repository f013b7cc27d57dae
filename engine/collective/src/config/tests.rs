use super::*;

fn parse(pairs: &[(&str, &str)]) -> Result<Settings> {
    Settings::parse(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn own_names_come_before_nccl_names() {
    let settings =
        parse(&[("RSCCL_MIN_NCHANNELS", "8"), ("NCCL_MIN_NCHANNELS", "4"), ("NCCL_MAX_NCHANNELS", "16")]);
    let settings = settings.unwrap();
    assert_eq!((settings.min_channels, settings.max_channels), (Some(8), Some(16)));
}

#[test]
fn a_step_is_an_eighth_of_a_buffer_that_is_no_larger_than_by_default() {
    let step = |pairs: &[(&str, &str)]| parse(pairs).unwrap().step_bytes;
    assert_eq!(step(&[]), 512 * 1024);
    assert_eq!(step(&[("NCCL_BUFFSIZE", "524288")]), 64 * 1024);
    assert_eq!(step(&[("NCCL_BUFFSIZE", "524288"), ("RSCCL_BUFFSIZE", "65536")]), 8 * 1024);
    assert_eq!((step(&[("NCCL_BUFFSIZE", "0")]), step(&[("NCCL_BUFFSIZE", "16777216")])), (1024, 512 * 1024));
    assert!(parse(&[("NCCL_BUFFSIZE", "4M")]).is_err());
}

#[test]
fn rank_order_is_the_only_determinism() {
    let order = |text: &'static str, algorithm: &'static str| {
        parse(&[("RSCCL_DETERMINISTIC", text), ("RSCCL_ALGO", algorithm)]).unwrap().rank_order
    };
    assert_eq!(parse(&[]).unwrap().rank_order, None);
    assert_eq!(order("rank-order", "tree"), Some(Algorithm::Direct));
    assert_eq!(order("rank-order", "fixed-tree"), Some(Algorithm::FixedTree));
    assert_eq!(order("rank-order:owner-sum", "fixed-tree"), Some(Algorithm::Direct));
    assert_eq!(order("rank-order:fixed-tree", "ring"), Some(Algorithm::FixedTree));
    let text = parse(&[("RSCCL_DETERMINISTIC", "1")]).unwrap_err().to_string();
    assert!(text.contains("RSCCL_DETERMINISTIC: \"1\" is not rank-order"), "{text}");
}

#[test]
fn a_connection_has_one_socket_unless_it_is_told_how_many() {
    assert_eq!(parse(&[]).unwrap().n_sockets, 1);
    let both = [("NCCL_NSOCKS_PERTHREAD", "2"), ("RSCCL_NSOCKS", "4")];
    assert_eq!(parse(&both).unwrap().n_sockets, 4);
    assert_eq!(parse(&both[..1]).unwrap().n_sockets, 2);
    assert!(parse(&[("RSCCL_NSOCKS", "0")]).unwrap_err().to_string().contains("RSCCL_NSOCKS: \"0\""));
}

#[test]
fn host_id_defaults_to_host() {
    let settings = parse(&[("RSCCL_HOST", "host-2")]).unwrap();
    assert_eq!((settings.host.as_str(), settings.host_id.as_str()), ("host-2", "host-2"));
}

#[test]
fn a_made_up_machine_has_the_made_up_interfaces() {
    let paths = |pairs: &[(&str, &str)]| {
        let settings = parse(pairs).unwrap();
        (settings.sysfs.display().to_string(), settings.sysfs_net.display().to_string())
    };
    let check = |pairs: &[(&str, &str)], sysfs: &str, net: &str| {
        assert_eq!(paths(pairs), (sysfs.to_owned(), net.to_owned()));
    };
    check(&[], "/sys", "/sys/class/net");
    check(&[("RSCCL_SYSFS", "/a")], "/a", "/a/class/net");
    check(&[("RSCCL_SYSFS_NET", "/a/sys/class/net")], "/a/sys", "/a/sys/class/net");
    check(&[("RSCCL_SYSFS_NET", "/flat")], "/sys", "/flat");
}

#[test]
fn nics_are_named_addresses() {
    let nics = parse(&[("RSCCL_NICS", "mlx5_0=127.0.2.1, mlx5_1=127.0.2.2")]).unwrap().nics.unwrap();
    let shown: Vec<_> = nics.iter().map(|nic| format!("{}@{}", nic.name, nic.address)).collect();
    assert_eq!(shown, ["mlx5_0@127.0.2.1", "mlx5_1@127.0.2.2"]);
}

#[test]
fn no_timeout_is_a_long_one() {
    assert_eq!(parse(&[("RSCCL_TIMEOUT_S", "0")]).unwrap().timeout, FOREVER);
    let usual = parse(&[]).unwrap();
    assert_eq!((usual.timeout, usual.stall_timeout), (Duration::from_secs(30), FOREVER));
}

#[test]
fn in_the_faithful_mode_nothing_times_out() {
    let limits = [("RSCCL_TIMEOUT_S", "2"), ("RSCCL_STALL_TIMEOUT_S", "2")];
    let settings = parse(&[&limits[..], &[("RSCCL_FAITHFUL", "2.30")]].concat()).unwrap();
    assert_eq!(settings.faithful, Some(Version::V2_30));
    assert_eq!((settings.timeout, settings.stall_timeout), (FOREVER, FOREVER));
    assert_eq!(parse(&[("RSCCL_FAITHFUL", "off")]).unwrap().faithful, None);
    assert!(parse(&[("RSCCL_FAITHFUL", "1")]).unwrap_err().to_string().contains("RSCCL_FAITHFUL: \"1\""));
}

#[test]
fn nccls_list_of_algorithms_counts_where_it_leaves_no_choice() {
    let algorithm = |pairs: &[(&str, &str)]| parse(pairs).unwrap().algorithm;
    for (list, expected) in [
        ("Ring", Some(Algorithm::Ring)),
        ("tree,CollNetDirect", Some(Algorithm::Tree)),
        ("Ring,Tree", None),
        ("^Ring", None),
        ("NVLS", None),
    ] {
        assert_eq!(algorithm(&[("NCCL_ALGO", list)]), expected, "{list}");
    }
    assert_eq!(algorithm(&[("NCCL_ALGO", "Ring"), ("RSCCL_ALGO", "direct")]), Some(Algorithm::Direct));
}

#[test]
fn all_mistakes_are_named_at_once() {
    let all = [
        ("RSCCL_NICS", "mlx5_0"),
        ("RSCCL_TIMEOUT_S", "-1"),
        ("NCCL_MIN_NCHANNELS", "many"),
        ("RSCCL_TUNING", "/nowhere/table.json"),
        ("NCCL_NVLS_ENABLE", "foo"),
        ("RSCCL_MACHINE", "dgx-x"),
        ("RSCCL_FAITHFUL", "2.28"),
    ];
    let text = parse(&all).unwrap_err().to_string();
    for (name, value) in &all[..6] {
        assert!(text.contains(name) && text.contains(value), "{name}: {text}");
    }
}
