//! What two ends tell each other of their edges, once, and how they become senders and receivers by it.

use crate::device::FlagForm;
use crate::error::{Error, Result};
use crate::link::ends::{Edge, End};
use crate::link::{Direction, Hold, Link, MAX_EDGES, Placement};
use crate::memory::{Address, Part};
use crate::placement::{Ending, dynamic, r#static};
use crate::tensor::{DataType, MAX_DIMS, Shape};

/// Names of edges in an error at most.
const MAX_LISTED: usize = 8;

/// An edge of the peer's.
#[derive(Debug, PartialEq)]
pub(super) struct Theirs {
    name: String,
    direction: Direction,
    placement: Placement,
    hold: Hold,
    /// Of a receiver: its slot or block.
    slot: Option<Address>,
    /// Of a sender: the word that tells it.
    word: Option<Address>,
}

/// How its transfers end, and its edges.
pub(super) type TheirEnd = (FlagForm, Vec<Theirs>);

/// This end's edges, as they travel.
pub(super) fn encode(form: FlagForm, edges: &[Edge]) -> Result<Vec<u8>> {
    let mut out = Writer(Vec::new());
    out.word(form as u64);
    out.word(edges.len() as u64);
    for Edge { declaration, slot, word, .. } in edges {
        out.text(&declaration.name)?;
        out.word(u64::from(declaration.direction == Direction::Send));
        match &declaration.placement {
            Placement::Static(shape) => {
                out.word(u64::from(shape.data_type() as u32));
                out.word(shape.dims().len() as u64);
                shape.dims().iter().for_each(|dim| out.word(*dim));
            }
            Placement::Dynamic { limit_bytes } => {
                [0, *limit_bytes].into_iter().for_each(|word| out.word(word))
            }
        }
        match &declaration.hold {
            Hold::Release => out.text("")?,
            Hold::By(edge) => out.text(edge)?,
        }
        out.place(slot.as_ref());
        out.place(word.as_ref());
    }
    Ok(out.0)
}

/// The peer's end of the connection; nothing if it makes no sense.
pub(super) fn decode(bytes: &[u8]) -> Option<TheirEnd> {
    let mut input = Reader(bytes);
    let forms = [FlagForm::Tail, FlagForm::Behind, FlagForm::Immediate];
    let number = input.word()?;
    let form = forms.into_iter().find(|form| *form as u64 == number)?;
    let n_edges =
        input.word().and_then(|n_edges| usize::try_from(n_edges).ok()).filter(|n| *n <= MAX_EDGES)?;
    let edges: Option<Vec<Theirs>> = (0..n_edges).map(|_| input.edge()).collect();
    input.0.is_empty().then_some((form, edges?))
}

struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    fn text(&mut self, text: &str) -> Result<()> {
        if text.len() > usize::from(u16::MAX) {
            return Err(Error::Usage(format!("a name of {} bytes", text.len())));
        }
        self.word(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn place(&mut self, part: Option<&Part>) {
        self.word(u64::from(part.is_some()));
        let address = part.map_or(Address { key: 0, offset: 0 }, Part::address);
        self.word(address.key);
        self.word(address.offset);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.word()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    fn place(&mut self) -> Option<Option<Address>> {
        let is_there = self.word()? == 1;
        let address = Address { key: self.word()?, offset: self.word()? };
        Some(is_there.then_some(address))
    }

    fn edge(&mut self) -> Option<Theirs> {
        let name = self.text()?;
        let direction = if self.word()? == 1 { Direction::Send } else { Direction::Receive };
        let placement = match self.word()? {
            0 => Placement::Dynamic { limit_bytes: self.word()? },
            number => {
                let data_type = DataType::from_number(u32::try_from(number).ok()?)?;
                let n_dims = usize::try_from(self.word()?).ok().filter(|n| *n <= MAX_DIMS)?;
                let dims: Vec<u64> = (0..n_dims).map(|_| self.word()).collect::<Option<_>>()?;
                Placement::Static(Shape::new(data_type, &dims).ok()?)
            }
        };
        let hold = match self.text()? {
            none if none.is_empty() => Hold::Release,
            edge => Hold::By(edge),
        };
        Some(Theirs { name, direction, placement, hold, slot: self.place()?, word: self.place()? })
    }
}

impl Link {
    /// Makes senders and receivers of the declarations, now that the peer's are known.
    pub(super) fn bind(&mut self, (form, theirs): &TheirEnd) -> Result<()> {
        let peer = self.device.peer().to_owned();
        if *form != self.form() {
            let (here, there) = (self.form(), *form);
            let why = format!(
                "here transfers end by {here:?}, there by {there:?} (RTENSOR_IB_FLAG, the same at both ends)"
            );
            return Err(mismatch("(all)", &peer, why));
        }
        for number in 0..self.edges.len() {
            self.bind_edge(number, theirs, &peer)?;
        }
        if let Some(unknown) = theirs.iter().find(|their| !self.names.contains_key(&their.name)) {
            return Err(mismatch(&unknown.name, &peer, format!("there is no edge {} here", unknown.name)));
        }
        for (sender, receiver) in self.holds(theirs, &peer)? {
            if let Some(edge) = self.edges.get_mut(receiver) {
                edge.frees.push(sender);
            }
        }
        Ok(())
    }

    fn bind_edge(&mut self, number: usize, theirs: &[Theirs], peer: &str) -> Result<()> {
        let form = self.form();
        let Some(edge) = self.edges.get_mut(number) else { return Ok(()) };
        let name = edge.declaration.name.clone();
        let found = theirs.iter().enumerate().find(|(_, their)| their.name == name);
        let Some((their_number, their)) = found else {
            let others = theirs.iter().map(|their| their.name.as_str());
            let others = list(others.filter(|other| !self.names.contains_key(*other)));
            return Err(mismatch(&name, peer, format!("there is no edge {name} there{others}")));
        };
        if their.direction == edge.declaration.direction || their.placement != edge.declaration.placement {
            let why = format!(
                "here it {} {}, there it {} {}",
                edge.declaration.direction, edge.declaration.placement, their.direction, their.placement
            );
            return Err(mismatch(&name, peer, why));
        }
        let lacks = || mismatch(&name, peer, "one end has no memory for it".to_owned());
        let ending = Ending { form, number: u32::try_from(their_number).map_err(|_| lacks())? };
        let slot = edge.slot.clone();
        edge.tell_at = their.word;
        edge.end =
            match (edge.declaration.direction, &edge.declaration.placement) {
                (Direction::Send, Placement::Static(shape)) => {
                    let remote = their.slot.ok_or_else(lacks)?;
                    End::StaticSender(r#static::Sender::new(name, slot, shape.size_bytes(), remote, ending))
                }
                (Direction::Receive, Placement::Static(shape)) => End::StaticReceiver(
                    r#static::Receiver::new(name.clone(), slot.ok_or_else(lacks)?, shape.size_bytes()),
                ),
                (Direction::Send, Placement::Dynamic { .. }) => {
                    let remote = their.slot.ok_or_else(lacks)?;
                    End::DynamicSender(dynamic::Sender::new(
                        name.clone(),
                        slot.ok_or_else(lacks)?,
                        remote,
                        ending,
                    ))
                }
                (Direction::Receive, Placement::Dynamic { limit_bytes }) => End::DynamicReceiver(
                    dynamic::Receiver::new(name.clone(), slot.ok_or_else(lacks)?, *limit_bytes),
                ),
            };
        Ok(())
    }

    /// Which sender here is freed by which receiver here. Also which sender here tells of which receiver: the peer's holds.
    fn holds(&mut self, theirs: &[Theirs], peer: &str) -> Result<Vec<(usize, usize)>> {
        let number = |own: &Self, name: &str, direction| {
            let number = own.names.get(name).copied()?;
            own.edges.get(number).filter(|edge| edge.declaration.direction == direction).map(|_| number)
        };
        let mut freed = Vec::new();
        for (sender, edge) in self.edges.iter().enumerate() {
            let (Direction::Send, Hold::By(by)) = (edge.declaration.direction, &edge.declaration.hold) else {
                continue;
            };
            match number(self, by, Direction::Receive) {
                Some(receiver) => freed.push((sender, receiver)),
                None => {
                    let why = format!("it is held by {by:?}, which is no edge from the peer");
                    return Err(mismatch(edge.name(), peer, why));
                }
            }
        }
        for their in theirs.iter().filter(|their| their.direction == Direction::Send) {
            let Hold::By(by) = &their.hold else { continue };
            let receiver = number(self, &their.name, Direction::Receive);
            let sender = number(self, by, Direction::Send);
            let (Some(receiver), Some(sender)) = (receiver, sender) else {
                let why = format!("there it is held by {by:?}, which is no edge from here");
                return Err(mismatch(&their.name, peer, why));
            };
            if let Some(edge) = self.edges.get_mut(sender) {
                edge.tells_of.push(receiver);
            }
        }
        Ok(freed)
    }
}

/// What the peer has in place of an edge that it lacks, as far as it is worth reading.
fn list<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    let first: Vec<&str> = names.by_ref().take(MAX_LISTED).collect();
    match (first.as_slice(), names.count()) {
        ([], _) => String::new(),
        (first, 0) => format!(" (it has: {})", first.join(", ")),
        (first, more) => format!(" (it has: {} and {more} more)", first.join(", ")),
    }
}

fn mismatch(edge: &str, peer: &str, why: String) -> Error {
    Error::Mismatch { edge: edge.to_owned(), peer: peer.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Declaration;

    #[test]
    fn edges_travel_and_nonsense_is_refused() {
        let shape = Shape::new(DataType::F64, &[3, 5]).unwrap();
        let edges = [
            Edge::declared(Declaration::static_sender("one", shape, Hold::By("two".to_owned()))),
            Edge::declared(Declaration::dynamic_receiver("two", 77)),
        ];
        let bytes = encode(FlagForm::Behind, &edges).unwrap();
        let (form, theirs) = decode(&bytes).unwrap();
        assert_eq!((form, theirs.len()), (FlagForm::Behind, 2));
        for (edge, their) in edges.iter().zip(&theirs) {
            let expected = (&edge.declaration.name, &edge.declaration.placement, &edge.declaration.hold);
            assert_eq!((&their.name, &their.placement, &their.hold), expected);
        }
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None);
        }
    }
}
