//! Passes connections on to a server, and cuts them.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

pub struct Relay {
    pub url: String,
    cut: broadcast::Sender<()>,
    connections: Arc<AtomicUsize>,
}

impl Relay {
    pub async fn start(url: &str) -> io::Result<Self> {
        let target = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let own = format!("http://{}", listener.local_addr()?);
        let (cut, _) = broadcast::channel(1);
        let connections = Arc::new(AtomicUsize::new(0));
        let (sender, count) = (cut.clone(), connections.clone());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let (target, mut ends) = (target.clone(), sender.subscribe());
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = ends.recv() => {}
                    }
                });
            }
        });
        Ok(Self { url: own, cut, connections })
    }

    pub fn cut(&self) {
        let _ = self.cut.send(());
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}
