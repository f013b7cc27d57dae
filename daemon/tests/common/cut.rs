//! A network in front of a database that is cut off at a chosen statement: what was connected stays so and hears nothing more, as
//! when the other machine is gone. Who connects again gets through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Cut {
    pub port: u16,
    is_armed: Arc<AtomicBool>,
    cuts: watch::Sender<u32>,
}

impl Cut {
    /// Stands before the server at `port`, and cuts at the first statement with `words` once it is armed.
    pub async fn before(port: u16, words: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (cuts, _) = watch::channel(0);
        let cut = Self {
            port: listener.local_addr().unwrap().port(),
            is_armed: Arc::new(AtomicBool::new(false)),
            cuts,
        };
        let (is_armed, cuts) = (Arc::clone(&cut.is_armed), cut.cuts.clone());
        #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
                tokio::spawn(carry(client, server, words, Arc::clone(&is_armed), cuts.clone()));
            }
        });
        cut
    }

    pub fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
    }

    /// How often it was cut.
    pub fn n_cuts(&self) -> u32 {
        *self.cuts.borrow()
    }
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    words: &str,
    is_armed: Arc<AtomicBool>,
    cuts: watch::Sender<u32>,
) {
    let mut cut = cuts.subscribe();
    let (mut to_server, mut to_client) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            _ = cut.changed() => break,
            read = client.read(&mut to_server) => {
                let Ok(n @ 1..) = read else { return };
                let is_met = to_server[..n].windows(words.len()).any(|part| part == words.as_bytes());
                if is_met && is_armed.swap(false, Ordering::SeqCst) {
                    cuts.send_modify(|cuts| *cuts += 1);
                    break;
                }
                if server.write_all(&to_server[..n]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut to_client) => {
                let Ok(n @ 1..) = read else { return };
                if client.write_all(&to_client[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
    // The server sees it end, the client hears nothing.
    drop(server);
    while let Ok(1..) = client.read(&mut to_server).await {}
}
