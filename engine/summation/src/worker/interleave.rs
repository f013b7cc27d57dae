//! Whose turn it is to be sent to: deficit round robin with weights (Shreedhar and Varghese, 1995), one frame at a time.
//!
//! When one server is sent `len` bytes, each other contender earns `len * weight / (sum of weights)`, and the one that was
//! served pays that: balances always add up to 0. The next one is whoever has the largest balance, of equals the one served longest ago: over any stretch in
//! which all of them contend, each gets its weight's share to within a frame.

/// Frames that a balance has at most: what a server that could not be served catches up on at a stretch.
const MAX_FRAMES_OFF: u64 = 8;

#[derive(Debug)]
pub(super) struct Interleave {
    balance: Vec<i64>,
    served_at: Vec<usize>,
    turn: usize,
    limit: i64,
}

impl Interleave {
    /// Of equals, server `first` is served first, then those after it.
    pub(super) fn new(n_servers: usize, first: usize, frame_bytes: u64) -> Self {
        let place = |server: usize| (server + n_servers - first % n_servers) % n_servers;
        Self {
            balance: vec![0; n_servers],
            served_at: (0..n_servers).map(place).collect(),
            turn: n_servers,
            limit: signed(frame_bytes.saturating_mul(MAX_FRAMES_OFF)),
        }
    }

    /// Whose turn it is.
    pub(super) fn pick(&self, contenders: impl Iterator<Item = usize>) -> Option<usize> {
        contenders.max_by_key(|&server| (self.balance[server], std::cmp::Reverse(self.served_at[server])))
    }

    /// `len` bytes go to `server`; `contenders` are all that could have been served, with their weights.
    pub(super) fn charge(&mut self, contenders: &[(usize, u64)], server: usize, len: u64) {
        let sum: u128 = contenders.iter().map(|contender| u128::from(contender.1)).sum();
        for &(other, weight) in contenders.iter().filter(|contender| contender.0 != server) {
            let due = (u128::from(len) * u128::from(weight)).div_ceil(sum.max(1));
            let due = i64::try_from(due).unwrap_or(i64::MAX).min(self.limit - self.balance[other]);
            self.balance[other] += due;
            self.balance[server] -= due;
        }
        self.served_at[server] = self.turn;
        self.turn += 1;
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME_BYTES: u64 = 64 << 10;

    fn serve(interleave: &mut Interleave, contenders: &[(usize, u64)], turns: usize) -> Vec<usize> {
        let mut serve = |_| {
            let server = interleave.pick(contenders.iter().map(|contender| contender.0)).unwrap();
            interleave.charge(contenders, server, FRAME_BYTES);
            server
        };
        (0..turns).map(&mut serve).collect()
    }

    #[test]
    fn turns_are_in_proportion_to_weights_and_evenly_spread() {
        let mut interleave = Interleave::new(3, 0, FRAME_BYTES);
        let turns = serve(&mut interleave, &[(0, 300), (1, 100), (2, 200)], 600);
        let count = |server| turns.iter().filter(|turn| **turn == server).count();
        for (server, expected) in [300_usize, 100, 200].into_iter().enumerate() {
            assert!(count(server).abs_diff(expected) <= 1, "{} of {expected}", count(server));
        }
        let longest = turns.split(|turn| *turn == 0).map(<[usize]>::len).max();
        assert_eq!(longest, Some(2));
        assert_eq!(interleave.balance.iter().sum::<i64>(), 0);
    }

    #[test]
    fn equals_take_turns_from_the_first_on() {
        let mut interleave = Interleave::new(3, 2, FRAME_BYTES);
        assert_eq!(serve(&mut interleave, &[(0, 1), (1, 1), (2, 1)], 6), [2, 0, 1, 2, 0, 1]);
    }

    #[test]
    fn one_with_next_to_nothing_left_is_not_forgotten() {
        let mut interleave = Interleave::new(3, 0, FRAME_BYTES);
        assert!(serve(&mut interleave, &[(0, 1 << 40), (1, 1 << 40), (2, 1)], 4).contains(&2));
    }
}
