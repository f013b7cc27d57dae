//! What to do about a finding, for who reads it at night: one or two sentences, commands in backquotes. Pure.

use ringscope_api::FindingKind;

use super::rdma::PAUSES_SENT;

/// What to do. Empty: nothing is known to help.
pub(super) fn advice(kind: FindingKind, host: &str, cause: &str, nic: Option<&str>) -> String {
    use FindingKind as Kind;
    match (kind, nic) {
        (Kind::NicDegraded | Kind::ChannelShortfall | Kind::ChannelRegression, Some(nic)) => {
            about_nic(host, nic)
        }
        (Kind::ChannelShortfall | Kind::ChannelRegression, None) => format!(
            "Probably a NIC or a GPU link of {host} is down or hidden: compare `ip -br link`, `ibstat` and \
             `nvidia-smi topo -m` there with a healthy host. Once mended, the job uses it when it next forms its \
             communicators."
        ),
        (kind, Some(nic)) if kind.is_about_rdma() => about_rdma(kind, cause, host, nic),
        (Kind::GpuMissing, _) => format!(
            "Look at the GPUs of {host}: `nvidia-smi -L` and `dmesg -T | grep -i xid` there; one that fell off the bus \
             comes back with a reset or a restart of the host."
        ),
        (Kind::FinalDisagrees, _) => {
            "The communicator will hang: stop the job, give every rank the same NCCL version and the same NCCL_* settings, \
             start it again."
                .to_owned()
        }
        (Kind::InitBelowHalfFinal, _) if cause == "unexplained" => format!(
            "Compare the NCCL_* settings and the NCCL version of {host} with those of the other hosts."
        ),
        (Kind::TransportFallback, _) => format!(
            "The bytes arrive, slower: look at `ibstat`, `NCCL_IB_HCA`, `NCCL_P2P_DISABLE` and `nvidia-smi topo -p2p n` on \
             {host}, and whether `nvidia-peermem` is loaded there as on the other hosts."
        ),
        (Kind::RailMismatch, _) => format!(
            "Traffic of {host} crosses the spine: compare the order of its NICs (`NCCL_IB_HCA`, PCI slots) with the other \
             hosts', and `NCCL_CROSS_NIC`."
        ),
        _ => String::new(),
    }
}

fn about_rdma(kind: FindingKind, cause: &str, host: &str, nic: &str) -> String {
    use FindingKind as Kind;
    let (device, number) = nic.split_once(':').unwrap_or((nic, "1"));
    let port = if number == "1" { String::new() } else { format!(" -i {number}") };
    match kind {
        Kind::RdmaRetransmits => format!(
            "Packets are lost on the way: look at {nic} of {host}, its cable and the queues and drops of its switch port \
             (`rdma statistic show link {device}/{number}`, `ethtool -S` of its interface), and whether PFC or ECN holds for the \
             traffic class of the job on every switch between."
        ),
        Kind::QueuePairError if cause == "port_down" => format!(
            "Bring the port up: `ip link show` and `rdma link show {device}/{number}` on {host} say how it stands; look at its cable \
             and its switch port. Nothing goes over a failed connection any more: after that the job has to be started again."
        ),
        Kind::RdmaErrors | Kind::QueuePairError => format!(
            "Nothing goes over a failed connection any more: the job has to be started again, or to form its communicators \
             anew. Before that look at the other end and the way to it: `ibv_devinfo -d {device}{port}` and `rdma resource show qp` on \
             both hosts, `ping` between the two addresses. Retries that are exceeded mean that the other end did not answer; \
             an access error, that a program wrote where it may not."
        ),
        Kind::GidMismatch => format!(
            "Give all hosts one kind of GID: `NCCL_IB_GID_INDEX` counts otherwise on each of them, \
             `NCCL_IB_ROCE_VERSION_NUM=2` chooses by kind (NCCL 2.21 or later). `grep . /sys/class/infiniband/{device}/ports/{number}/gid_attrs/types/*` on \
             {host} shows which there are."
        ),
        Kind::MtuMismatch => format!(
            "Set the MTU of the interface behind {nic} of {host} as on the other hosts (`ip link show`, 4200 or more for packets \
             of 4096 bytes), and that of the switch ports at least as high; connections that are made after that use it."
        ),
        Kind::PfcStorm if cause != PAUSES_SENT => format!(
            "Look for who sends the pause frames: the switch port of {nic} of {host} and those that it forwards to; follow \
             the counters of pause frames from port to port to the one that sends them and receives none. Switch the PFC \
             watchdog of the switches on."
        ),
        Kind::PfcStorm => format!(
            "Take {host} out, or set its port {nic} down: who sends pause frames all the time takes nothing and stops all who \
             send to it. Look for a process that hangs in the NIC's driver (`dmesg -T`), a NIC that wants a reset, and switch \
             the PFC watchdog of the switches on."
        ),
        _ => String::new(),
    }
}

/// RDMA devices are called `mlx5_0`, `bnxt_re0`, …; what else there is has no `ibstat`.
fn about_nic(host: &str, nic: &str) -> String {
    let stem = nic.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_rdma = stem.len() < nic.len() && (stem.ends_with('_') || stem.ends_with("_re"));
    let look = if is_rdma { format!("ibstat {nic}") } else { format!("ip -s link show {nic}") };
    format!(
        "Look at {nic} of {host}, its cable and its switch port: `{look}`, `ip -br link`, `dmesg -T | grep {nic}`. Once \
         mended, a job uses it when it next forms its communicators; until then take the host out if the job can do without."
    )
}

#[cfg(test)]
mod tests {
    use super::advice;
    use ringscope_api::FindingKind;

    #[test]
    fn it_names_the_nic_where_it_is_known() {
        let of = |nic| advice(FindingKind::NicDegraded, "host-2", "nic_down", nic);
        assert!(
            of(Some("mlx5_3"))
                .starts_with("Look at mlx5_3 of host-2, its cable and its switch port: `ibstat mlx5_3`")
        );
        assert!(of(Some("bnxt_re0")).contains("`ibstat bnxt_re0`"));
        assert!(of(Some("eth0")).contains("`ip -s link show eth0`"));
        assert_eq!(of(None), "", "a NIC that nobody can name");
        let shortfall = advice(FindingKind::ChannelShortfall, "host-2", "fewer_channels", None);
        assert!(shortfall.starts_with("Probably a NIC or a GPU link of host-2"), "{shortfall}");
    }

    #[test]
    fn commands_about_rdma_name_the_device_and_its_port() {
        let of = |kind, nic| advice(kind, "host-2", "", Some(nic));
        for (nic, link, info, folder) in [
            ("mlx5_3", "show link mlx5_3/1`", "`ibv_devinfo -d mlx5_3`", "/mlx5_3/ports/1/gid_attrs"),
            ("mlx4_0:2", "show link mlx4_0/2`", "`ibv_devinfo -d mlx4_0 -i 2`", "/mlx4_0/ports/2/gid_attrs"),
        ] {
            assert!(of(FindingKind::RdmaRetransmits, nic).contains(link));
            assert!(of(FindingKind::QueuePairError, nic).contains(info));
            assert!(of(FindingKind::GidMismatch, nic).contains(folder));
        }
    }

    #[test]
    fn what_is_explained_needs_nothing() {
        assert_eq!(advice(FindingKind::InitBelowHalfFinal, "host-2", "doubled", None), "");
        assert!(advice(FindingKind::InitBelowHalfFinal, "host-2", "unexplained", None).contains("host-2"));
        assert_eq!(advice(FindingKind::CappedByPeer, "host-1", "peer_limits", None), "");
    }
}
