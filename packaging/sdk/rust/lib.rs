//! Calls a parhelion daemon: its routes, and its methods of JSON-RPC.

mod api;
mod client;
pub mod types;

pub use api::Rpc;
pub use client::{Client, Error, Kind};
