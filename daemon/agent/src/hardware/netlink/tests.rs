use proptest::prelude::*;

use super::*;

fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let bytes = u16::try_from(ATTRIBUTE_HEAD_BYTES + payload.len()).unwrap();
    let mut all = [&bytes.to_ne_bytes()[..], &kind.to_ne_bytes(), payload].concat();
    all.resize(aligned(all.len()), 0);
    all
}

fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(HEAD_BYTES + payload.len()).unwrap();
    let mut all =
        [&bytes.to_ne_bytes()[..], &kind.to_ne_bytes(), &2_u16.to_ne_bytes(), &[0; 8], payload].concat();
    all.resize(aligned(all.len()), 0);
    all
}

/// Nested attributes say so by a bit of their kind.
const NESTED: u16 = 0x8000;

/// A queue pair as `fill_res_qp_entry` writes it.
fn entry(number: u32, remote: Option<u32>, state: u8, owner: Result<u32, &str>) -> Vec<u8> {
    let mut all = attribute(PORT_INDEX, &1_u32.to_ne_bytes());
    all.extend(attribute(RES_LQPN, &number.to_ne_bytes()));
    if let Some(remote) = remote {
        all.extend(attribute(RES_RQPN, &remote.to_ne_bytes()));
        all.extend(attribute(23, &7_u32.to_ne_bytes()));
    }
    all.extend(attribute(24, &7_u32.to_ne_bytes()));
    all.extend(attribute(26, &[2]));
    all.extend(attribute(RES_STATE, &[state]));
    match owner {
        Ok(pid) => all.extend(attribute(RES_PID, &pid.to_ne_bytes())),
        Err(name) => all.extend(attribute(29, format!("{name}\0").as_bytes())),
    }
    attribute(NESTED | RES_QP_ENTRY, &all)
}

fn answer(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut all = attribute(DEV_INDEX, &3_u32.to_ne_bytes());
    all.extend(attribute(DEV_NAME, b"rxe0\0"));
    all.extend(attribute(NESTED | RES_QP, &entries.concat()));
    message(NLDEV << CLIENT_SHIFT | CMD_RES_QP_GET, &all)
}

fn taken(datagram: &[u8]) -> (Vec<QueuePair>, Result<bool, Option<i32>>) {
    let mut found = Vec::new();
    let last = is_last(datagram, &mut |attributes| take(attributes, &mut found));
    (found, last.map_err(|error| error.raw_os_error()))
}

#[test]
fn queue_pairs_of_programs_are_told_with_their_state() {
    let entries = [
        entry(1, None, 3, Err("ib_core")),
        entry(17, Some(18), 3, Ok(4711)),
        entry(19, Some(0), 6, Ok(4711)),
        entry(20, None, 99, Ok(4712)),
    ];
    let pair = |number, remote_number, state, pid| QueuePair {
        device: "rxe0".to_owned(),
        port: 1,
        number,
        remote_number,
        state,
        pid,
    };
    let expected = vec![
        pair(17, Some(18), QueuePairState::Rts, 4711),
        pair(19, None, QueuePairState::Err, 4711),
        pair(20, None, QueuePairState::Unspecified, 4712),
    ];
    assert_eq!(taken(&answer(&entries)), (expected, Ok(false)));
    let done = [answer(&entries[..2]), message(NLMSG_DONE, &[0; 4])].concat();
    assert_eq!((taken(&done).0.len(), taken(&done).1), (1, Ok(true)));
}

/// As kernels answered, see `fixtures/rdma/README.md`.
#[test]
fn recorded_answers_are_taken_apart() {
    let numbers = |datagram: &[u8]| {
        let pairs = taken(datagram).0.into_iter();
        pairs.map(|pair| (pair.number, pair.remote_number, pair.state)).collect::<Vec<_>>()
    };
    let rts = include_bytes!("../../../../../fixtures/rdma/res-qp.bin");
    assert_eq!(numbers(rts), [(18, Some(18), QueuePairState::Rts)]);
    let err = include_bytes!("../../../../../fixtures/rdma/queue-pairs-err.netlink");
    assert_eq!(numbers(err), [(19, Some(20), QueuePairState::Err)]);
    assert_eq!((taken(err).0[0].device.as_str(), taken(err).0[0].port), ("rxe0", 1));
    let devices = include_bytes!("../../../../../fixtures/rdma/devices.netlink");
    let mut found = Vec::new();
    assert!(is_last(devices, &mut |attributes| found.extend(attributes.number(DEV_INDEX))).unwrap());
    assert_eq!(found, [0]);
}

#[test]
fn an_answer_ends_with_its_last_message_or_an_error_and_is_not_whole_where_it_makes_no_sense() {
    let error = |code: i32| message(NLMSG_ERROR, &[&code.to_ne_bytes()[..], &[0; 16]].concat());
    assert_eq!(taken(&error(-libc::ENODEV)).1, Err(Some(libc::ENODEV)));
    assert_eq!(taken(&error(0)).1, Ok(true));
    assert_eq!(taken(&message(NLMSG_DONE, &(-libc::EIO).to_ne_bytes())).1, Err(Some(libc::EIO)), "midway");
    assert_eq!(taken(&[]).1, Err(None), "nothing came");
    let long = [&u32::MAX.to_ne_bytes()[..], &[0; 20]].concat();
    assert_eq!(taken(&long).1, Err(None), "longer than what came");
    assert_eq!(taken(&[0; 64]).1, Err(None), "shorter than its head");
    let mut changed = answer(&[entry(17, Some(18), 3, Ok(4711))]);
    changed[6] |= 0x10;
    assert_eq!(taken(&changed), (Vec::new(), Err(None)), "changed meanwhile");
    assert_eq!(taken(&message(4 << CLIENT_SHIFT, &[])), (Vec::new(), Ok(false)), "another's");
}

#[test]
fn a_request_is_as_the_kernel_takes_it() {
    let asked = request(CMD_RES_QP_GET, Some(3));
    assert_eq!(
        (asked.len(), word(&asked, 0), half(&asked, 4), half(&asked, 6)),
        (24, Some(24), Some(5130), Some(0x301))
    );
    assert_eq!(Attributes(&asked[HEAD_BYTES..]).number(DEV_INDEX), Some(3));
    assert_eq!(request(CMD_GET, None).len(), HEAD_BYTES);
}

#[test]
fn a_kernel_without_rdma_has_no_queue_pairs() {
    // With RDMA, this process has made none.
    let own = std::process::id();
    assert!(queue_pairs().queue_pairs.iter().all(|pair| pair.pid != own));
}

#[test]
fn an_answer_that_takes_too_long_is_not_waited_for() {
    let now = ringscope_api::clock::monotonic();
    assert_eq!(dump(&[], now, |_| {}).unwrap_err().to_string(), late().to_string());
    let lacks = ["rxe0: Input/output error".to_owned(), "rxe1: late".to_owned()];
    assert_eq!(words(&lacks).as_deref(), Some("rxe0: Input/output error (and 1 more)"));
    assert_eq!(words(&[]), None);
}

proptest! {
    #[test]
    fn no_bytes_lead_beyond_them(bytes in proptest::collection::vec(any::<u8>(), 0..512), cut in 0_usize..200) {
        let whole = answer(&[entry(17, Some(18), 3, Ok(4711)), entry(19, Some(20), 6, Ok(4711))]);
        let _ = taken(&bytes);
        let _ = taken(&whole[..cut.min(whole.len())]);
        let mut changed = whole;
        for (at, byte) in bytes.iter().enumerate().take(8) {
            let len = changed.len();
            changed[(usize::from(*byte) * 7 + at) % len] ^= byte;
        }
        prop_assert!(taken(&changed).0.len() <= 2);
    }
}
