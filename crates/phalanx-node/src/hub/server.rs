//! A hub that is no executor, and therefore has a listener of its own.

use super::Hub;
use crate::door::{Door, Wanted, refused};
use crate::log::Log;
use phalanx_net::socket::Listener;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// A hub that listens.
pub struct HubServer {
    hub: Arc<Hub>,
    door: Arc<Door>,
    address: SocketAddr,
}

impl HubServer {
    /// Listens at `address` (`host:port`) and serves from threads of its own.
    ///
    /// # Errors
    /// The hub cannot listen at this address.
    pub fn start(address: &str, hub: Arc<Hub>, log: Log) -> io::Result<HubServer> {
        #[cfg(target_os = "linux")]
        crate::cage::hide_memory()?;
        let listener = Listener::bind(address)?;
        let address = listener.address()?;
        hub.listens_at(address.port());
        let (serving, member) = (hub.clone(), hub.member.clone());
        let serve = Box::new(move |peer, wanted| match wanted {
            Wanted::Join => serving.serve_joining(peer),
            Wanted::Hub => serving.serve(peer),
            Wanted::Hubs => serving.serve_hub(peer),
            Wanted::Relay { token } => serving.serve_relayed(peer, token),
            Wanted::Content => serving.serve_contents(peer),
            _ => Err(refused("this is a hub, and no executor")),
        });
        Ok(HubServer { hub, door: Door::open(vec![listener], Some(member), serve, log)?, address })
    }

    /// The address at which the hub listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops serving.
    pub fn close(&self) {
        self.door.close();
        self.hub.close();
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        self.close();
    }
}
