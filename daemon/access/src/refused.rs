//! Tokens of ours that open nothing any more, and who still comes with them: to be told of, but not each time, for an agent
//! asks four times a second.

use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;

/// When it was last told that a token was refused, by its id. As many as there are tokens, at most.
#[derive(Debug, Default)]
pub struct Refused(HashMap<String, Timestamp>);

impl Refused {
    /// Whether it is to be told that this token, which the book recognised, was refused.
    pub fn is_news(&mut self, id: &str, now: Timestamp) -> bool {
        match self.0.get_mut(id) {
            Some(told) if now.since(*told) < STEP => false,
            Some(told) => {
                *told = now;
                true
            }
            None => self.0.insert(id.to_owned(), now).is_none(),
        }
    }
}

/// Once an hour: whoever reads the trail sees that it goes on, and a thousand agents with an old token fill no disk.
const STEP: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_is_told_of_once_an_hour() {
        let mut refused = Refused::default();
        let mut at = |id: &str, s: u64| refused.is_news(id, Timestamp(s * 1_000_000_000));
        assert!(at("a", 10) && !at("a", 11) && !at("a", 3609));
        assert!(at("b", 12), "another token's are its own");
        assert!(at("a", 3610) && !at("a", 3611) && !at("a", 7209));
    }
}
