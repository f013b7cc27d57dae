//! Any stream of parts, with a driver that does things in any order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::tests::{PLAIN, pipeline};
use super::*;

/// What the driver may do next.
#[derive(Clone, Debug)]
enum Deed {
    Submit { priority: u32, sizes: Vec<(usize, u64, bool)> },
    Send { writable: Vec<bool> },
    Sum { which: usize },
    Work { stage: usize, pieces: u64 },
}

const N_SERVERS: usize = 3;
const N_PRIORITIES: u32 = 4;

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let sizes = prop::collection::vec((0..N_SERVERS, 1..400_u64, any::<bool>()), 0..6);
    let deed = prop_oneof![
        1 => (0..N_PRIORITIES, sizes).prop_map(|(priority, sizes)| Deed::Submit { priority, sizes }),
        8 => prop::collection::vec(any::<bool>(), N_SERVERS).prop_map(|writable| Deed::Send { writable }),
        3 => (0..100_usize).prop_map(|which| Deed::Sum { which }),
        8 => (0..Stage::ALL.len(), 1..4_u64).prop_map(|(stage, pieces)| Deed::Work { stage, pieces }),
    ];
    prop::collection::vec(deed, 1..400)
}

/// A driver and perfect servers.
struct Driver {
    pipeline: Pipeline,
    next_key: u32,
    at_server: Vec<(usize, u32)>,
    left: BTreeMap<u32, u64>,
    n_finished: usize,
}

impl Driver {
    fn act(&mut self, deed: &Deed) -> bool {
        match deed {
            Deed::Submit { priority, sizes } => {
                let parts: Vec<Part> = (self.next_key..)
                    .zip(sizes)
                    .map(|(key, &(server, bytes, compress))| Part { key, server, bytes, compress })
                    .collect();
                self.next_key += u32::try_from(sizes.len()).unwrap();
                self.left.extend(parts.iter().map(|part| (part.key, part.bytes)));
                self.pipeline.submit("w", *priority, &parts, 0).unwrap();
                true
            }
            Deed::Send { writable } => self.send(writable),
            Deed::Sum { which } => {
                if self.at_server.is_empty() {
                    return false;
                }
                let (server, key) = self.at_server.swap_remove(which % self.at_server.len());
                self.pipeline.summed(server, key, 0).unwrap();
                true
            }
            Deed::Work { stage, pieces } => self.work(Stage::ALL[*stage], *pieces),
        }
    }

    fn send(&mut self, writable: &[bool]) -> bool {
        let Some(send) = self.pipeline.next_send(writable, 0) else { return false };
        assert!(writable[send.server] && (1..=PLAIN.frame_bytes).contains(&send.len));
        let left = self.left.get_mut(&send.key).unwrap();
        *left -= send.len;
        if *left == 0 {
            self.at_server.push((send.server, send.key));
        }
        self.pipeline.sent(send.server, send.key, send.len, 0).unwrap();
        true
    }

    fn work(&mut self, stage: Stage, pieces: u64) -> bool {
        let Some(Work { key, server, bytes, .. }) = self.pipeline.next_work(stage, 0) else { return false };
        match stage {
            Stage::Compress => {
                self.left.insert(key, bytes.div_ceil(2));
                self.pipeline.compressed(key, (bytes.div_ceil(2), bytes), 0, 0).unwrap();
            }
            Stage::Pull => {
                let piece = bytes.div_ceil(pieces);
                let sizes = (0..pieces).map(|index| piece.min(bytes.saturating_sub(index * piece)));
                sizes.for_each(|size| {
                    if size > 0 {
                        self.pipeline.pulled(server, key, size, 0).unwrap();
                    }
                });
            }
            Stage::Decompress => self.pipeline.decompressed(key, 0, 0).unwrap(),
            Stage::Push | Stage::Sum => return false,
        }
        true
    }

    fn look(&mut self) {
        let snapshot = self.pipeline.snapshot(0);
        let most = |bound: u64| u64::from(N_PRIORITIES) * bound;
        assert!(snapshot.credits_used_bytes <= most(PLAIN.credit_bytes), "{snapshot:?}");
        for server in &snapshot.servers {
            assert!(server.credits_used_bytes <= most(PLAIN.credit_bytes_per_server), "{server:?}");
        }
        while self.pipeline.next_finished().is_some() {
            self.n_finished += 1;
        }
    }

    /// Everything that can be done, until nothing can.
    fn finish(&mut self) {
        let all = || {
            let work = (0..Stage::ALL.len()).map(|stage| Deed::Work { stage, pieces: 1 });
            work.chain([Deed::Send { writable: vec![true; N_SERVERS] }, Deed::Sum { which: 0 }])
        };
        while all().any(|deed| self.act(&deed)) {
            self.look();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_stream_of_parts_ends_within_its_credits(deeds in deeds()) {
        let pipeline = pipeline(N_SERVERS, PLAIN);
        let (at_server, left) = (Vec::new(), BTreeMap::new());
        let mut driver = Driver {
            pipeline,
            next_key: 0,
            at_server,
            left,
            n_finished: 0,
        };
        let mut n_tensors = 0;
        for deed in &deeds {
            n_tensors += usize::from(matches!(deed, Deed::Submit { .. }));
            driver.act(deed);
            driver.look();
        }
        driver.finish();
        driver.look();
        prop_assert_eq!(driver.n_finished, n_tensors);
        let snapshot = driver.pipeline.snapshot(0);
        prop_assert_eq!((snapshot.credits_used_bytes, snapshot.oldest), (0, None));
        prop_assert!(snapshot.stages.iter().all(|stage| stage.depth + stage.begun == 0));
        prop_assert!(driver.pipeline.queues.iter().all(|queue| queue.slots == [0; N_SERVERS]));
    }
}
