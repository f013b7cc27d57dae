//! Reads a pickle that holds data only: what PyTorch's Flight Recorder writes (protocol 2), and what Python writes when
//! somebody pickles such a dump again (up to 5). Nothing is imported, called or built: an opcode that would do so is an
//! error. Values lie in an arena, so that neither nesting nor references among them can exhaust the stack or, by
//! repetition, the memory. (The crates that read pickles copy what is referred to, without a bound.)

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

/// Why bytes are no pickle of data.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum PickleError {
    #[error("it ends at byte {0} in the midst of a value")]
    Cut(usize),
    #[error("opcode {opcode:#04x} at byte {at} is not one of a pickle")]
    Unknown { opcode: u8, at: usize },
    #[error(
        "at byte {0} it wants Python to import or call something; only data is read, nothing is executed"
    )]
    Code(usize),
    #[error("byte {0} does not fit what comes before it")]
    Malformed(usize),
    #[error(
        "it holds more than {MAX_VALUES} values or far more than its bytes can hold, or values more than {MAX_DEPTH} deep"
    )]
    TooLarge,
}

/// Values that were made of a pickle, and how many may be.
struct Budget {
    spent: usize,
    most: usize,
}

/// Reads the one value of a pickle. Tuples and sets become arrays; keys that are no strings become their text.
pub(super) fn read(bytes: &[u8]) -> Result<Value, PickleError> {
    let mut machine = Machine { bytes, ..Machine::default() };
    let top = machine.run()?;
    let most = bytes.len().saturating_mul(COST_PER_BYTE).clamp(LEAST_COST, MAX_VALUES);
    machine.value(top, 0, &mut Budget { spent: 0, most })
}

/// Where a value lies in the arena.
type Id = usize;

enum Node {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
}

#[derive(Default)]
struct Machine<'b> {
    bytes: &'b [u8],
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Id>,
    /// Heights of the stack at each mark.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Id, PickleError> {
        loop {
            let at = self.at;
            match self.byte()? {
                b'.' => return self.pop(),
                0x80 => drop(self.take(1)?),
                0x95 => drop(self.take(8)?),
                opcode => {
                    if !self.scalar(opcode)? && !self.structure(opcode)? && !self.remember(opcode)? {
                        return Err(match opcode {
                            b'c'
                            | b'R'
                            | b'b'
                            | b'i'
                            | b'o'
                            | 0x81
                            | 0x92
                            | 0x93
                            | b'P'
                            | b'Q'
                            | 0x82..=0x84 => PickleError::Code(at),
                            opcode => PickleError::Unknown { opcode, at },
                        });
                    }
                }
            }
        }
    }

    /// Opcodes that push one value.
    fn scalar(&mut self, opcode: u8) -> Result<bool, PickleError> {
        let node = match opcode {
            b'N' => Node::None,
            0x88 => Node::Bool(true),
            0x89 => Node::Bool(false),
            b'K' => Node::Int(self.number(1)?.cast_signed()),
            b'M' => Node::Int(self.number(2)?.cast_signed()),
            b'J' => self.long(4)?,
            b'I' | b'L' => self.decimal()?,
            0x8a => {
                let n = self.length(1)?;
                self.long(n)?
            }
            0x8b => {
                let n = self.length(4)?;
                self.long(n)?
            }
            b'G' => {
                let bytes = self.take(8)?.try_into().unwrap_or([0; 8]);
                Node::Float(f64::from_be_bytes(bytes))
            }
            b'F' => {
                let at = self.at;
                Node::Float(self.line()?.parse().map_err(|_| PickleError::Malformed(at))?)
            }
            b'X' | b'T' | b'B' => self.text(4)?,
            0x8c | b'U' | b'C' => self.text(1)?,
            0x8d | 0x8e => self.text(8)?,
            b'V' => Node::Text(self.line()?),
            b'S' => Node::Text(self.line()?.trim_matches(['\'', '"']).to_owned()),
            b']' | b')' | 0x8f => Node::List(Vec::new()),
            b'}' => Node::Dict(Vec::new()),
            _ => return Ok(false),
        };
        self.push(node)?;
        Ok(true)
    }

    /// Opcodes that put values together.
    fn structure(&mut self, opcode: u8) -> Result<bool, PickleError> {
        match opcode {
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.since_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b't' | b'l' | 0x91 => {
                let items = self.since_mark()?;
                self.push(Node::List(items))?;
            }
            0x85..=0x87 => {
                let first = self.stack.len().checked_sub(usize::from(opcode - 0x84));
                let items = self.stack.split_off(first.ok_or(PickleError::Malformed(self.at))?);
                self.push(Node::List(items))?;
            }
            b'd' => {
                let items = self.since_mark()?;
                self.push(Node::Dict(pairs(&items)))?;
            }
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])?;
            }
            b'e' | 0x90 => {
                let items = self.since_mark()?;
                self.append(&items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.insert(&[key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.insert(&items)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Opcodes of the memo.
    fn remember(&mut self, opcode: u8) -> Result<bool, PickleError> {
        let is_put = matches!(opcode, b'q' | b'r' | b'p' | 0x94);
        let key = match opcode {
            b'q' | b'h' => self.number(1)?,
            b'r' | b'j' => self.number(4)?,
            b'p' | b'g' => {
                let at = self.at;
                self.line()?.parse().map_err(|_| PickleError::Malformed(at))?
            }
            0x94 => self.memo.len() as u64,
            _ => return Ok(false),
        };
        if is_put {
            let top = self.top()?;
            self.memo.insert(key, top);
        } else {
            let known = self.memo.get(&key).copied().ok_or(PickleError::Malformed(self.at))?;
            self.stack.push(known);
        }
        Ok(true)
    }

    fn append(&mut self, items: &[Id]) -> Result<(), PickleError> {
        let top = self.top()?;
        let Some(Node::List(list)) = self.nodes.get_mut(top) else {
            return Err(PickleError::Malformed(self.at));
        };
        list.extend_from_slice(items);
        Ok(())
    }

    fn insert(&mut self, items: &[Id]) -> Result<(), PickleError> {
        let top = self.top()?;
        let Some(Node::Dict(dict)) = self.nodes.get_mut(top) else {
            return Err(PickleError::Malformed(self.at));
        };
        dict.extend(pairs(items));
        Ok(())
    }

    fn push(&mut self, node: Node) -> Result<(), PickleError> {
        if self.nodes.len() >= MAX_VALUES {
            return Err(PickleError::TooLarge);
        }
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
        Ok(())
    }

    fn pop(&mut self) -> Result<Id, PickleError> {
        self.stack.pop().ok_or(PickleError::Malformed(self.at))
    }

    fn top(&self) -> Result<Id, PickleError> {
        self.stack.last().copied().ok_or(PickleError::Malformed(self.at))
    }

    fn since_mark(&mut self) -> Result<Vec<Id>, PickleError> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len());
        Ok(self.stack.split_off(mark.ok_or(PickleError::Malformed(self.at))?))
    }

    fn byte(&mut self) -> Result<u8, PickleError> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, n: usize) -> Result<&[u8], PickleError> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(PickleError::Cut(self.bytes.len()))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A little-endian number of up to eight bytes.
    fn number(&mut self, n_bytes: usize) -> Result<u64, PickleError> {
        Ok(self.take(n_bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, n_bytes: usize) -> Result<usize, PickleError> {
        let at = self.at;
        usize::try_from(self.number(n_bytes)?).map_err(|_| PickleError::Malformed(at))
    }

    /// A signed number of any length; beyond 64 bits as a float.
    fn long(&mut self, n_bytes: usize) -> Result<Node, PickleError> {
        let bytes = self.take(n_bytes)?;
        if bytes.len() <= 8 {
            let fill = if bytes.last().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 };
            let mut whole = [fill; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            return Ok(Node::Int(i64::from_le_bytes(whole)));
        }
        Ok(Node::Float(bytes.iter().rev().fold(0.0, |sum, byte| sum * 256.0 + f64::from(*byte))))
    }

    fn decimal(&mut self) -> Result<Node, PickleError> {
        let at = self.at;
        match self.line()?.trim_end_matches('L') {
            "00" => Ok(Node::Bool(false)),
            "01" => Ok(Node::Bool(true)),
            digits => digits.parse().map(Node::Int).map_err(|_| PickleError::Malformed(at)),
        }
    }

    fn text(&mut self, n_bytes: usize) -> Result<Node, PickleError> {
        let n = self.length(n_bytes)?;
        Ok(Node::Text(String::from_utf8_lossy(self.take(n)?).into_owned()))
    }

    fn line(&mut self) -> Result<String, PickleError> {
        let length = self.bytes[self.at..].iter().position(|byte| *byte == b'\n');
        let length = length.ok_or(PickleError::Cut(self.bytes.len()))?;
        let line = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.at += 1;
        Ok(line)
    }

    /// A value out of the arena, with all that it refers to.
    fn value(&self, id: Id, depth: usize, cost: &mut Budget) -> Result<Value, PickleError> {
        let text_bytes = if let Some(Node::Text(text)) = self.nodes.get(id) { text.len() } else { 0 };
        cost.spent += 1 + text_bytes / BYTES_PER_COST;
        if depth > MAX_DEPTH || cost.spent > cost.most {
            return Err(PickleError::TooLarge);
        }
        Ok(match self.nodes.get(id) {
            None | Some(Node::None) => Value::Null,
            Some(Node::Bool(bool)) => Value::Bool(*bool),
            Some(Node::Int(number)) => (*number).into(),
            Some(Node::Float(number)) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Some(Node::Text(text)) => Value::String(text.clone()),
            Some(Node::List(items)) => {
                let items = items.iter().map(|item| self.value(*item, depth + 1, cost));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Some(Node::Dict(items)) => {
                let mut map = Map::new();
                for (key, item) in items {
                    let key = match self.value(*key, depth + 1, cost)? {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    map.insert(key, self.value(*item, depth + 1, cost)?);
                }
                Value::Object(map)
            }
        })
    }
}

fn pairs(items: &[Id]) -> Vec<(Id, Id)> {
    items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Values of one pickle, each as often as it is referred to: 20 000 operations with stacks of 60 frames.
const MAX_VALUES: usize = 8_000_000;
/// The same by bytes of the pickle: frames are written once and referred to by every operation, each with its stack of
/// sixty, in some hundred bytes. Without it nested references of a few hundred bytes would take a gigabyte.
const COST_PER_BYTE: usize = 16;
const LEAST_COST: usize = 4_096;
/// A dump is six deep.
const MAX_DEPTH: usize = 64;
/// Bytes of text that count as one value.
const BYTES_PER_COST: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn data_of_protocols_2_and_4() {
        // pickle.dumps({'a': (1, -2, None, True), 'b': [1.5, 'x', 2**40]}, protocol) of CPython 3.
        let two = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01(K\x01J\xfe\xff\xff\xffN\x88tq\x02X\x01\x00\x00\x00bq\x03]q\x04(G?\xf8\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00xq\x05\x8a\x06\x00\x00\x00\x00\x00\x01eu.";
        let four = b"\x80\x04\x95\x2a\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94(K\x01J\xfe\xff\xff\xffN\x88t\x94\x8c\x01b\x94]\x94(G?\xf8\x00\x00\x00\x00\x00\x00\x8c\x01x\x94\x8a\x06\x00\x00\x00\x00\x00\x01eu.";
        let expected = json!({"a": [1, -2, null, true], "b": [1.5, "x", 1_u64 << 40]});
        assert_eq!(read(two), Ok(expected.clone()));
        assert_eq!(read(four), Ok(expected));
    }

    #[test]
    fn what_is_referred_to_is_repeated() {
        assert_eq!(read(b"\x80\x02]q\x00K\x07a0(h\x00h\x00l."), Ok(json!([[7], [7]])));
    }

    #[test]
    fn code_is_refused_and_never_run() {
        let call = b"\x80\x02cos\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03.";
        assert_eq!(read(call), Err(PickleError::Code(2)));
        assert!(read(call).unwrap_err().to_string().contains("nothing is executed"));
    }

    #[test]
    fn bombs_are_bounded() {
        // Thirty lists, each holding the one before twice: 2^30 values.
        let mut bomb = b"\x80\x02]q\x00".to_vec();
        for n in 0..30_u8 {
            bomb.extend([b']', b'h', n, b'a', b'h', n, b'a', b'q', n + 1]);
        }
        bomb.push(b'.');
        assert_eq!(read(&bomb), Err(PickleError::TooLarge));
        let mut deep = b"\x80\x02)".to_vec();
        deep.extend(std::iter::repeat_n(0x85, 1_000_000));
        deep.push(b'.');
        assert_eq!(read(&deep), Err(PickleError::TooLarge));
        // A list that holds itself.
        assert_eq!(read(b"\x80\x02]q\x00h\x00a."), Err(PickleError::TooLarge));
        // A text of four thousand million bytes that are not there.
        assert!(matches!(read(b"\x80\x02X\xff\xff\xff\xffabc."), Err(PickleError::Cut(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
        }

        #[test]
        fn no_opcodes_make_it_panic(
            opcodes in proptest::collection::vec(
                proptest::sample::select(b"]})(teuads012N\x85\x86\x87\x88q\x00h\x01K\x94.l\x8c\x02X".to_vec()), 0..200)
        ) {
            let _ = read(&opcodes);
        }
    }
}
