//! A connection of TLS that also knows its traffic secrets.
//!
//! rustls hands the secrets out in its key log only. Its other way gives keys without the secrets that the next keys come from.

use crate::preamble::Preamble;
use crate::seal::SECRET;
use crate::sync::lock;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, KeyLog, ServerConfig, ServerConnection};
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use zeroize::Zeroizing;

const OF_CLIENT: &str = "CLIENT_TRAFFIC_SECRET_0";
const OF_SERVER: &str = "SERVER_TRAFFIC_SECRET_0";

type Secret = Zeroizing<[u8; SECRET]>;

/// One end's connection, for one handshake.
#[derive(Debug)]
pub struct Connection {
    tls: rustls::Connection,
    traffic: Arc<Traffic>,
    only_for: Option<Preamble>,
}

impl Connection {
    /// The client's end.
    pub(crate) fn client(config: &ClientConfig, name: ServerName<'static>) -> Result<Connection, rustls::Error> {
        let traffic = Arc::new(Traffic::default());
        let mut config = config.clone();
        config.key_log = traffic.clone();
        Ok(Connection { tls: ClientConnection::new(Arc::new(config), name)?.into(), traffic, only_for: None })
    }

    /// The server's end.
    pub(crate) fn server(config: &ServerConfig) -> Result<Connection, rustls::Error> {
        let traffic = Arc::new(Traffic::default());
        let mut config = config.clone();
        config.key_log = traffic.clone();
        Ok(Connection { tls: ServerConnection::new(Arc::new(config))?.into(), traffic, only_for: None })
    }

    /// The same connection, whose handshake fails behind another preamble, and at another level than private: its verifier is for this
    /// purpose only.
    pub(crate) fn only_for(self, preamble: Preamble) -> Connection {
        Connection { only_for: Some(preamble), ..self }
    }

    /// The only purpose of the connection. `None`: it is good for all that members do.
    pub(crate) fn purpose(&self) -> Option<Preamble> {
        self.only_for
    }

    pub(crate) fn is_client(&self) -> bool {
        matches!(self.tls, rustls::Connection::Client(_))
    }

    /// The application traffic secrets of the client and of the server (RFC 8446, section 7.1), once, after the handshake.
    pub(crate) fn traffic(&self) -> io::Result<[Secret; 2]> {
        let of = |secret: &Mutex<Option<Secret>>| {
            lock(secret).take().ok_or_else(|| io::Error::other("the handshake has left no secret"))
        };
        Ok([of(&self.traffic.client)?, of(&self.traffic.server)?])
    }
}

impl Deref for Connection {
    type Target = rustls::Connection;

    fn deref(&self) -> &rustls::Connection {
        &self.tls
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut rustls::Connection {
        &mut self.tls
    }
}

#[derive(Default)]
struct Traffic {
    client: Mutex<Option<Secret>>,
    server: Mutex<Option<Secret>>,
}

impl std::fmt::Debug for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traffic").finish_non_exhaustive()
    }
}

impl KeyLog for Traffic {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        let of = match label {
            OF_CLIENT => &self.client,
            OF_SERVER => &self.server,
            _ => return,
        };
        *lock(of) = secret.try_into().ok().map(Zeroizing::new);
    }

    fn will_log(&self, label: &str) -> bool {
        label == OF_CLIENT || label == OF_SERVER
    }
}
