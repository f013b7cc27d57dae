//! The requests of one end: as many as NCCL may have in flight at once.

use nccl_net::MAX_REQUESTS;

/// The requests, by their places; a connection's n-th takes place n modulo their number.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    places: [Option<Request>; MAX_REQUESTS],
    /// Those that are not done.
    n_open: usize,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    /// Parts that are not done.
    open: usize,
    /// Bytes of the whole.
    bytes: u64,
}

impl Requests {
    /// Whether a place is free.
    pub(crate) fn is_free(&self, place: usize) -> bool {
        self.places[place % MAX_REQUESTS].is_none()
    }

    /// Begins a request of so many parts.
    pub(crate) fn begin(&mut self, place: usize, parts: usize, bytes: u64) {
        self.places[place % MAX_REQUESTS] = Some(Request { open: parts, bytes });
        self.n_open += 1;
    }

    /// Takes back a request that could not be begun.
    pub(crate) fn take_back(&mut self, place: usize) {
        self.places[place % MAX_REQUESTS] = None;
        self.n_open -= 1;
    }

    /// A part is done; of a receive the bytes of the whole come with it. Whether the request is done by that.
    pub(crate) fn done(&mut self, place: usize, bytes: Option<u64>) -> Option<u64> {
        let request = self.places.get_mut(place)?.as_mut()?;
        request.open = request.open.saturating_sub(1);
        request.bytes = bytes.unwrap_or(request.bytes);
        let (is_done, bytes) = (request.open == 0, request.bytes);
        self.n_open -= usize::from(is_done);
        is_done.then_some(bytes)
    }

    /// The bytes of a request that is done, whose place is then free; none while it is not.
    ///
    /// # Errors
    /// There is no request.
    pub(crate) fn take(&mut self, place: usize) -> Result<Option<u64>, ()> {
        let held = &mut self.places[place % MAX_REQUESTS];
        match held {
            None => Err(()),
            Some(request) if request.open > 0 => Ok(None),
            Some(request) => {
                let bytes = request.bytes;
                *held = None;
                Ok(Some(bytes))
            }
        }
    }

    /// Bytes of a request in flight.
    pub(crate) fn bytes(&self, place: usize) -> u64 {
        self.places[place % MAX_REQUESTS].map_or(0, |request| request.bytes)
    }

    /// Whether any is in flight.
    pub(crate) fn any(&self) -> bool {
        self.n_open > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_done_with_its_last_part() {
        let mut requests = Requests::default();
        requests.begin(33, 2, 100);
        assert!(!requests.is_free(1) && requests.is_free(2) && requests.any());
        assert_eq!((requests.done(usize::MAX, None), requests.done(2, None)), (None, None), "nobody's");
        assert_eq!((requests.done(1, Some(70)), requests.take(1)), (None, Ok(None)));
        assert_eq!(requests.done(1, Some(70)), Some(70));
        assert_eq!((requests.take(33), requests.take(33)), (Ok(Some(70)), Err(())));
        assert!(requests.is_free(1) && !requests.any());
    }
}
