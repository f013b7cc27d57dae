//! Collects the sockets of a connection as they come, until it has all of them.

use std::net::TcpStream;

use crate::net::hello::Strand;

/// Connections that lack some of their sockets at most, far more than ranks open at once; the oldest gives way.
const MAX_OPEN: usize = 16 * 1024;

/// Connections that lack some of their sockets.
#[derive(Debug, Default)]
pub(crate) struct Strands(Vec<Open>);

#[derive(Debug)]
struct Open {
    channel: u16,
    peer: usize,
    sockets: Vec<Option<TcpStream>>,
}

impl Strands {
    /// Adds a socket that `peer` has opened; all of the connection's, in order, if it was the last.
    pub(crate) fn add(&mut self, strand: Strand, peer: usize, stream: TcpStream) -> Option<Vec<TcpStream>> {
        let same = |open: &Open| {
            (open.channel, open.peer, open.sockets.len()) == (strand.channel, peer, usize::from(strand.n))
        };
        let at = self.0.iter().position(same).unwrap_or_else(|| {
            if self.0.len() >= MAX_OPEN {
                self.0.remove(0);
            }
            let sockets = (0..strand.n).map(|_| None).collect();
            self.0.push(Open { channel: strand.channel, peer, sockets });
            self.0.len() - 1
        });
        let open = self.0.get_mut(at)?;
        *open.sockets.get_mut(usize::from(strand.index))? = Some(stream);
        if open.sockets.iter().any(Option::is_none) {
            return None;
        }
        Some(self.0.swap_remove(at).sockets.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_is_whole_with_its_last_socket_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let call = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let [first, second, other] = [call(), call(), call()];
        let ports = [&first, &second].map(|stream| stream.local_addr().unwrap().port());
        let strand = |index, n| Strand { channel: 3, index, n };
        let mut strands = Strands::default();
        assert!(strands.add(strand(1, 2), 5, second).is_none());
        assert_eq!(strands.add(strand(0, 1), 6, other).unwrap().len(), 1);
        let whole = strands.add(strand(0, 2), 5, first).unwrap();
        assert!(whole.iter().map(|stream| stream.local_addr().unwrap().port()).eq(ports));
        assert!(strands.0.is_empty());
    }
}
