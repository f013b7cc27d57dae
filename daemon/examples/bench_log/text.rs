//! The bytes that are read.

use std::fmt::Write as _;

/// What they are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// A log as jobs leave them: inits at the beginning of each attempt, between them a training program's lines.
    Training,
    /// Nothing but NCCL's.
    OnlyNccl,
    /// Mutated lines of the corpus, and random ones.
    Mutated,
}

/// Logs of the corpus that come whole from NCCL, newest and oldest.
const CORPUS: [&[u8]; 6] = [
    include_bytes!("../../../fixtures/logs/nccl-2.8.3-p4d-efa-16ranks-mpirun.log"),
    include_bytes!("../../../fixtures/logs/nccl-2.16.5-2node-ib-graph.log"),
    include_bytes!("../../../fixtures/logs/nccl-2.18.5-h100-2node-8ranks-4comms.log"),
    include_bytes!("../../../fixtures/logs/nccl-2.22.3-p5-h100-efa-16ranks-mpirun.log"),
    include_bytes!("../../../fixtures/logs/nccl-2.27.3-a800-8gpu-graph.log"),
    include_bytes!("../../../fixtures/logs/nccl-2.27.3-torn-8procs-one-file.log"),
];

/// Lines of a training program for each line of NCCL's. A job prints some thousand lines of NCCL's and then, for days,
/// its own; here NCCL's are every fourth.
const OTHERS_PER_LINE: usize = 3;

/// Makes text.
pub(crate) struct Source {
    mix: Mix,
    lines: Vec<&'static [u8]>,
    at: usize,
    step: u64,
    random: u64,
}

impl Source {
    pub(crate) fn new(mix: Mix) -> Self {
        let lines = CORPUS.iter().flat_map(|log| log.split(|byte| *byte == b'\n')).collect();
        Self { mix, lines, at: 0, step: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Puts whole lines of at least so many bytes into `block`.
    pub(crate) fn fill(&mut self, block: &mut Vec<u8>, bytes: usize) {
        block.clear();
        while block.len() < bytes {
            let line = self.lines[self.at];
            self.at = (self.at + 1) % self.lines.len();
            match self.mix {
                Mix::OnlyNccl => block.extend_from_slice(line),
                Mix::Training => {
                    for _ in 0..OTHERS_PER_LINE {
                        self.train(block);
                    }
                    block.extend_from_slice(line);
                }
                Mix::Mutated => self.mutate(block, line),
            }
            block.push(b'\n');
        }
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % end.max(1) as u64).unwrap()
    }

    fn train(&mut self, block: &mut Vec<u8>) {
        self.step += 1;
        let mut line = String::new();
        let (step, loss) = (self.step, 2.0 + 1.0 / self.step as f64);
        match self.step % 5 {
            0 => writeln!(line, "[2026-04-28 14:14:48,{:03}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[0.0003], mom=[(0.9, 0.95)]", step % 1000),
            1 => writeln!(line, " iteration {step:8}/  500000 | consumed samples: {:12} | elapsed time per iteration (ms): 1892.3 | learning rate: 3.000E-04 | global batch size: 1024 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 0.213 | number of skipped iterations: 0 |", step * 1024),
            2 => writeln!(line, "{{\"step\": {step}, \"loss\": {loss:.4}, \"tokens_per_s\": 51234.2, \"mfu\": 0.41}}"),
            3 => writeln!(line, "W0428 14:14:48.{:06} 22711 torch/distributed/run.py:793] Setting OMP_NUM_THREADS", step % 1_000_000),
            _ => writeln!(line, "Epoch 3:  45%|####5     | {step}/100000 [00:12<00:15,  3.61it/s, loss={loss:.3}]"),
        }
        .unwrap();
        block.extend_from_slice(line.as_bytes());
    }

    fn mutate(&mut self, block: &mut Vec<u8>, line: &[u8]) {
        let start = block.len();
        block.extend_from_slice(line);
        match self.below(8) {
            // Bytes changed.
            0 | 1 => {
                for _ in 0..=self.below(4) {
                    let at = start + self.below(block.len() - start + 1);
                    let byte = u8::try_from(self.below(256)).unwrap();
                    if let Some(place) = block.get_mut(at) {
                        *place = byte;
                    }
                }
            }
            // Cut, and another one right behind.
            2 => {
                let length = self.below(line.len() + 1);
                block.truncate(start + length);
                let other = self.below(self.lines.len());
                let other = self.lines[other];
                block.extend_from_slice(other);
            }
            // Overwritten in the middle.
            3 => {
                let other = self.below(self.lines.len());
                let other = self.lines[other];
                let at = start + self.below(line.len() + 1);
                let end = (at + other.len()).min(block.len());
                block[at..end].copy_from_slice(&other[..end - at]);
            }
            // Digits changed: other ranks, channels, pointers, processes without end.
            4..=6 => {
                for byte in &mut block[start..] {
                    if byte.is_ascii_digit() && self.below(3) == 0 {
                        *byte = b'0' + u8::try_from(self.below(10)).unwrap();
                    }
                }
            }
            // Anything.
            _ => {
                block.truncate(start);
                for _ in 0..self.below(200) {
                    block.push(u8::try_from(self.below(256)).unwrap());
                }
                block.extend_from_slice(if self.below(2) == 0 { b" NCCL INFO " } else { b"x" });
            }
        }
    }
}
