//! Which counters of an RDMA port mean what: trouble on the link, packets that were lost and repeated, requests that failed for
//! good, and congestion. Those that nothing follows from (`sent_pkts`, `lifespan`), and those of queues that a program flushes
//! when it ends (`req_cqe_flush_error`, and `req_cqe_error`, which counts them too), are in no list.
//!
//! Sources: the kernel's `Documentation/ABI/stable/sysfs-class-infiniband`, NVIDIA's "Understanding mlx5 Linux counters", and the
//! drivers' own tables: `rxe_hw_counters.c`, `efa_verbs.c`, bnxt_re's and irdma's `hw_counters.c` and `verbs.c`.

/// Counters of `counters` that mean trouble on the link. `port_xmit_wait` and the switch relay's are congestion and multicast.
pub(super) const LINK_ERRORS: &[&str] = &[
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_constraint_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
];
/// The same of `hw_counters`: what came broken, or could not be sent.
pub(super) const HARDWARE_ERRORS: &[&str] = &[
    "rx_icrc_encapsulated",
    "rx_crc_errors",
    "tx_roce_errors",
    "tx_roce_discards",
    "rx_roce_errors",
    "rx_roce_discards",
    "ip4InTruncPkts",
    "ip6InTruncPkts",
    "tcpInProtoErrors",
    "send_err",
];
/// Counters of `hw_counters` that mean that something was lost, late or out of order, and was repeated.
pub(super) const RETRANSMITS: &[&str] = &[
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "implied_nak_seq_err",
    "duplicate_request",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart_trans",
    // Soft RoCE.
    "rcvd_seq_err",
    "out_of_seq_request",
    "completer_retry_err",
    "rcvd_rnr_err",
    "send_rnr_err",
    // EFA.
    "retrans_pkts",
    "retrans_timeout_events",
    // bnxt_re.
    "to_retransmits",
    "seq_err_naks_rcvd",
    "rnr_naks_rcvd",
    "missing_resp",
    "dup_req",
    // irdma.
    "tcpRetransSegs",
];
/// Counters of `hw_counters` that mean that a request failed for good.
pub(super) const FAILURES: &[&str] = &[
    "req_transport_retries_exceeded",
    "req_rnr_retries_exceeded",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_remote_access_errors",
    "resp_local_length_error",
    // Soft RoCE.
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    // EFA.
    "rdma_read_wr_err",
    "rdma_write_wr_err",
    "unresponsive_remote_events",
    "impaired_remote_conn_events",
    // bnxt_re.
    "max_retry_exceeded",
    "unrecoverable_err",
    "bad_resp_err",
    "local_qp_op_err",
    "local_protection_err",
    "mem_mgmt_op_err",
    "remote_invalid_req_err",
    "remote_access_err",
    "remote_op_err",
];
/// Counters of `hw_counters` that tell of congestion and of how senders answer it.
pub(super) const CONGESTION: &[&str] = &[
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "cnp_tx_pkts",
    "cnp_rx_pkts",
    "tx_cnp_pkts",
    "rx_cnp_pkts",
    "rx_ecn_marked_pkts",
    "cnpSent",
    "cnpHandled",
    "cnpIgnored",
    "RxECNMrkd",
];
