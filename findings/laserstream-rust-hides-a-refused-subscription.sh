#!/usr/bin/env bash
# helius-laserstream 1.1.0 (Rust): a subscription that the server refuses is sent again every five seconds, without an
# end and without a word to the program.
#
# Expected: the stream yields the refusal, such as INVALID_ARGUMENT "too many filters", or ends after
#   `with_max_reconnect_attempts(2)` with the error that its documentation promises.
# Happens: a Yellowstone server opens the stream first and refuses in it. The client takes the open stream for success
#   and sets its count of attempts back to 0, takes the refusal for a lost connection, waits five seconds and asks
#   the same again. The stream yields nothing. (A refusal in place of the stream is counted, but its reason is dropped.)
# Hurts: whoever names one filter or one address more than the plan allows: the program waits for updates that never
#   come, and the provider counts a new subscription every five seconds.
# Instead: install a `tracing` subscriber and watch for "Stream error", or try a new filter with
#   yellowstone-grpc-client first, whose stream yields the status.
#
# Needs cargo (Rust 1.85 or newer), a C++ compiler, cmake or make for its dependencies, and node 20.18 or newer.
# It compiles for some minutes and runs for 18 seconds.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "refused"
version = "0.0.0"
edition = "2021"

[dependencies]
futures-util = "0.3"
helius-laserstream = { version = "=1.1.0", default-features = false }
tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
TOML
cat > src/main.rs <<'RS'
use futures_util::StreamExt;
use helius_laserstream::{grpc, subscribe, LaserstreamConfig};
use std::{collections::HashMap, time::Duration};

#[tokio::main]
async fn main() {
    let endpoint = std::env::args().nth(1).unwrap();
    let config = LaserstreamConfig::new(endpoint, "key".to_owned()).with_max_reconnect_attempts(2);
    let slots = HashMap::from([("slots".to_owned(), grpc::SubscribeRequestFilterSlots::default())]);
    let (updates, _handle) = subscribe(config, grpc::SubscribeRequest { slots, ..Default::default() });
    let mut updates = std::pin::pin!(updates);
    match tokio::time::timeout(Duration::from_secs(18), updates.next()).await {
        Err(_) => println!("nothing"),
        Ok(None) => println!("the end of the stream"),
        Ok(Some(Ok(_))) => println!("an update"),
        Ok(Some(Err(error))) => println!("error: {error}"),
    }
}
RS
cat > run.mjs <<'JS'
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http2';

let subscriptions = 0;
const server = createServer();
server.on('stream', (stream) => {
  subscriptions += 1;
  stream.on('error', () => undefined);
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () =>
    stream.sendTrailers({ 'grpc-status': '3', 'grpc-message': 'too many filters' }),
  );
  stream.once('data', () => stream.end());
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const client = spawn('./target/debug/refused', [`http://127.0.0.1:${server.address().port}`]);
let text = '';
for (const output of [client.stdout, client.stderr]) output.on('data', (chunk) => (text += chunk));
await once(client, 'close');
server.close();
console.log('helius-laserstream 1.1.0, at most 2 attempts, each refused with INVALID_ARGUMENT "too many filters"');
console.log(`subscriptions in 18 s: ${subscriptions}`);
console.log(`what the program was told: ${text.trim()}`);
if (subscriptions < 3 || text.trim() !== 'nothing') {
  console.error('CHANGED');
  process.exit(1);
}
JS
cargo build --quiet >&2
node run.mjs
