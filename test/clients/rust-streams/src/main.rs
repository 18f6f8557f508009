//! Calls the gRPC server of a daemon with the Rust clients of Yellowstone (proto 14) and LaserStream.

mod relay;

use futures_util::{pin_mut, Stream, StreamExt};
use helius_laserstream::{grpc, LaserstreamClient, LaserstreamConfig, SubscribeOptions};
use relay::Relay;
use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use yellowstone_grpc_client::{GeyserGrpcClient, ReconnectEvent};
use yellowstone_grpc_proto::prelude::{
    subscribe_update::UpdateOneof, CommitmentLevel, SubscribeRequest, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterSlots, SubscribeRequestFilterTransactions,
    SubscribeDeshredRequest, SubscribeUpdate, SubscribeUpdateBlockMeta,
};
use yellowstone_grpc_proto::tonic::{codec::CompressionEncoding, Code, Status};

type Failure = Box<dyn Error>;
type Outcome = Result<(), Failure>;

/// Blocks that are looked at before and after a connection is cut.
const BLOCKS: usize = 4;

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn expect(holds: bool, text: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(text.into().into()) }
}

/// Runs one step and prints its outcome in a line.
async fn flow(name: &str, step: impl Future<Output = Outcome>) -> bool {
    let outcome = match tokio::time::timeout(Duration::from_secs(90), step).await {
        Ok(outcome) => outcome,
        Err(_) => Err("no answer in 90 s".into()),
    };
    match outcome {
        Ok(()) => println!("ok {name}"),
        Err(error) => {
            let text: String = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            println!("not ok {name}: {}", text.chars().take(400).collect::<String>());
            return false;
        }
    }
    true
}

/// A JSON-RPC call. The daemon is on this machine, and closes the connection after its answer.
async fn rpc(method: &str, params: serde_json::Value) -> Result<serde_json::Value, Failure> {
    let base = env("PARHELION_BASE");
    let host = base.trim_start_matches("http://");
    let body = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let mut socket = tokio::net::TcpStream::connect(host).await?;
    let head = format!(
        "POST /?api-key={} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        env("PARHELION_KEY"),
        body.len()
    );
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(body.as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    let (start, end) = (answer.find('{').ok_or("no JSON")?, answer.rfind('}').ok_or("no JSON")?);
    let mut reply: serde_json::Value = serde_json::from_str(&answer[start..=end])?;
    match reply.get("error") {
        Some(error) => Err(error.to_string().into()),
        None => Ok(reply["result"].take()),
    }
}

/// An address that nobody else uses.
const RECEIVER: &str = "4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi";

async fn fund() -> Result<String, Failure> {
    let signature = rpc("requestAirdrop", serde_json::json!([RECEIVER, 1_000_000])).await?;
    Ok(signature.as_str().ok_or("no signature")?.to_owned())
}

async fn connect(url: &str, key: Option<String>) -> Result<GeyserGrpcClient, Failure> {
    Ok(GeyserGrpcClient::build_from_shared(url.to_owned())?.x_token(key)?.connect().await?)
}

fn metas() -> SubscribeRequest {
    SubscribeRequest {
        blocks_meta: HashMap::from([("metas".to_owned(), SubscribeRequestFilterBlocksMeta::default())]),
        commitment: Some(CommitmentLevel::Confirmed as i32),
        ..Default::default()
    }
}

/// Each block is the parent of the next one that is new.
#[derive(Default)]
struct Links {
    last: Option<(u64, String)>,
    count: usize,
}

impl Links {
    fn take(&mut self, slot: u64, blockhash: &str, parent_slot: u64, parent_blockhash: &str) -> Outcome {
        if let Some((last, hash)) = &self.last {
            // What a client asks for again comes again.
            if slot <= *last {
                return Ok(());
            }
            expect(
                parent_slot == *last && parent_blockhash == hash,
                format!("slot {slot} follows {parent_slot}, and the last one was {last}"),
            )?;
        }
        self.last = Some((slot, blockhash.to_owned()));
        self.count += 1;
        Ok(())
    }

    fn take_meta(&mut self, meta: &SubscribeUpdateBlockMeta) -> Outcome {
        self.take(meta.slot, &meta.blockhash, meta.parent_slot, &meta.parent_blockhash)
    }
}

async fn next<T>(updates: &mut (impl Stream<Item = Result<T, Status>> + Unpin)) -> Result<T, Failure> {
    Ok(updates.next().await.ok_or("the stream ended")??)
}

async fn unary(url: &str) -> Outcome {
    let mut client = connect(url, Some(env("PARHELION_KEY"))).await?;
    expect(client.get_version().await?.version.contains("version"), "no version")?;
    let slot = client.get_slot(Some(CommitmentLevel::Confirmed)).await?.slot;
    let latest = client.get_latest_blockhash(Some(CommitmentLevel::Confirmed)).await?;
    expect(latest.slot >= slot, format!("blockhash of slot {}, and the slot is {slot}", latest.slot))?;
    let valid = client.is_blockhash_valid(latest.blockhash, Some(CommitmentLevel::Confirmed)).await?;
    expect(valid.valid, "the latest blockhash is not valid")?;
    expect(client.get_block_height(Some(CommitmentLevel::Confirmed)).await?.block_height > 0, "no height")?;
    expect(client.ping(7).await?.count == 7, "the ping came back changed")?;
    expect(client.subscribe_replay_info().await?.first_available.is_some(), "nothing to replay")
}

async fn transactions(url: &str) -> Outcome {
    let mut client = connect(url, Some(env("PARHELION_KEY"))).await?;
    let request = SubscribeRequest {
        transactions: HashMap::from([(
            "mine".to_owned(),
            SubscribeRequestFilterTransactions {
                account_include: vec![RECEIVER.to_owned()],
                vote: Some(false),
                failed: Some(false),
                ..Default::default()
            },
        )]),
        slots: HashMap::from([("slots".to_owned(), SubscribeRequestFilterSlots::default())]),
        commitment: Some(CommitmentLevel::Confirmed as i32),
        ..Default::default()
    };
    let (_sink, mut updates) = client.subscribe_with_request(Some(request)).await?;
    // A slot shows that the subscription is there.
    while !matches!(next::<SubscribeUpdate>(&mut updates).await?.update_oneof, Some(UpdateOneof::Slot(_))) {}
    fund().await?;
    loop {
        let Some(UpdateOneof::Transaction(update)) = next::<SubscribeUpdate>(&mut updates).await?.update_oneof else {
            continue;
        };
        let info = update.transaction.ok_or("an update without a transaction")?;
        let meta = info.meta.ok_or("a transaction without its meta")?;
        expect(info.signature.len() == 64 && !info.is_vote && meta.err.is_none(), "another transaction")?;
        return expect(update.slot > 0 && meta.fee > 0, "no slot or no fee");
    }
}

async fn compressed(url: &str, encoding: CompressionEncoding) -> Outcome {
    let mut client = GeyserGrpcClient::build_from_shared(url.to_owned())?
        .x_token(Some(env("PARHELION_KEY")))?
        .send_compressed(encoding)
        .accept_compressed(encoding)
        .connect()
        .await?;
    let (_sink, mut updates) = client.subscribe_with_request(Some(metas())).await?;
    let mut links = Links::default();
    while links.count < BLOCKS {
        if let Some(UpdateOneof::BlockMeta(meta)) = next::<SubscribeUpdate>(&mut updates).await?.update_oneof {
            links.take_meta(&meta)?;
        }
    }
    Ok(())
}

/// The connection is cut twice; no block is missing.
async fn reconnects(url: &str) -> Outcome {
    let relay = Relay::start(url).await?;
    let mut client = connect(&relay.url, Some(env("PARHELION_KEY"))).await?;
    let (_sink, mut updates) = client.subscribe_with_reconnect(Some(metas())).await?;
    let mut links = Links::default();
    let mut lost = 0;
    while links.count < 3 * BLOCKS || lost < 2 {
        match next(&mut updates).await? {
            ReconnectEvent::Disconnected(_) => lost += 1,
            ReconnectEvent::Update(update) => {
                let Some(UpdateOneof::BlockMeta(meta)) = update.update_oneof else { continue };
                let before = links.count;
                links.take_meta(&meta)?;
                if links.count > before && (links.count == BLOCKS || links.count == 2 * BLOCKS) {
                    relay.cut();
                }
            }
        }
    }
    Ok(())
}

/// What a follower of blocks cannot give is refused by name.
async fn refusals(url: &str) -> Outcome {
    let mut stranger = connect(url, Some("no-such-key".to_owned())).await?;
    let refused = stranger.get_slot(None).await.err().ok_or("a wrong key was accepted")?;
    expect(refused.to_string().contains("uthent"), refused.to_string())?;
    let mut client = connect(url, Some(env("PARHELION_KEY"))).await?;
    let deshred = client.subscribe_deshred_once(SubscribeDeshredRequest::default()).await;
    let text = match deshred {
        Err(error) => error.to_string(),
        Ok(updates) => {
            pin_mut!(updates);
            match updates.next().await {
                Some(Err(status)) if status.code() == Code::Unimplemented => return Ok(()),
                other => format!("{:?}", other.map(|one| one.map(|_| "an update"))),
            }
        }
    };
    expect(text.to_lowercase().contains("implemented"), text)
}

fn laserstream(endpoint: &str) -> LaserstreamConfig {
    LaserstreamConfig::new(endpoint.to_owned(), env("PARHELION_KEY"))
}

fn laser_metas() -> grpc::SubscribeRequest {
    grpc::SubscribeRequest {
        blocks_meta: HashMap::from([("metas".to_owned(), grpc::SubscribeRequestFilterBlocksMeta::default())]),
        commitment: Some(grpc::CommitmentLevel::Confirmed as i32),
        ..Default::default()
    }
}

async fn laserstream_unary(url: &str) -> Outcome {
    let client = LaserstreamClient::connect(laserstream(url)).await?;
    let slot = client.get_slot(Some(grpc::CommitmentLevel::Confirmed)).await?.slot;
    let latest = client.get_latest_blockhash(Some(grpc::CommitmentLevel::Confirmed)).await?;
    expect(latest.slot >= slot, format!("blockhash of slot {}, and the slot is {slot}", latest.slot))?;
    expect(client.ping(3).await?.count == 3, "the ping came back changed")?;
    expect(client.subscribe_replay_info().await?.first_available.is_some(), "nothing to replay")
}

/// The connection is cut once; no block is missing.
async fn laserstream_reconnects(url: &str) -> Outcome {
    let relay = Relay::start(url).await?;
    let (updates, _handle) = helius_laserstream::subscribe(laserstream(&relay.url), laser_metas());
    pin_mut!(updates);
    let mut links = Links::default();
    while links.count < 3 * BLOCKS {
        match updates.next().await.ok_or("the stream ended")? {
            // The client tells each lost connection and goes on.
            Err(_) => continue,
            Ok(update) => {
                let Some(grpc::subscribe_update::UpdateOneof::BlockMeta(meta)) = update.update_oneof else { continue };
                let before = links.count;
                links.take(meta.slot, &meta.blockhash, meta.parent_slot, &meta.parent_blockhash)?;
                if links.count > before && links.count == BLOCKS {
                    relay.cut();
                }
            }
        }
    }
    expect(relay.connections() >= 2, "the client never connected again")
}

/// Blocks are the same with the option, which only concerns accounts.
async fn laserstream_within_slots(url: &str) -> Outcome {
    let options = SubscribeOptions::default().with_intra_slot_updates(true);
    let (updates, _handle) = helius_laserstream::subscribe_with_options(laserstream(url), laser_metas(), options);
    pin_mut!(updates);
    let mut links = Links::default();
    while links.count < BLOCKS {
        let update = updates.next().await.ok_or("the stream ended")??;
        if let Some(grpc::subscribe_update::UpdateOneof::BlockMeta(meta)) = update.update_oneof {
            links.take(meta.slot, &meta.blockhash, meta.parent_slot, &meta.parent_blockhash)?;
        }
    }
    Ok(())
}

/// The filter of accounts that a Yellowstone client may send.
async fn accounts(url: &str) -> Outcome {
    let mut client = connect(url, Some(env("PARHELION_KEY"))).await?;
    let request = SubscribeRequest {
        accounts: HashMap::from([(
            "mine".to_owned(),
            SubscribeRequestFilterAccounts { account: vec![RECEIVER.to_owned()], ..Default::default() },
        )]),
        ..metas()
    };
    let text = match client.subscribe_with_request(Some(request)).await {
        Err(error) => error.to_string(),
        Ok((_sink, mut updates)) => match updates.next().await {
            Some(Err(status)) => status.to_string(),
            _ => "an update".to_owned(),
        },
    };
    expect(text.contains("account"), text)
}

#[tokio::main]
async fn main() {
    let url = env("PARHELION_GRPC");
    let outcomes = [
        flow("yellowstone-grpc-client 17: unary calls", unary(&url)).await,
        flow("yellowstone-grpc-client 17: slots and transactions", transactions(&url)).await,
        flow("yellowstone-grpc-client 17: gzip in both directions", compressed(&url, CompressionEncoding::Gzip)).await,
        flow("yellowstone-grpc-client 17: zstd in both directions", compressed(&url, CompressionEncoding::Zstd)).await,
        flow("yellowstone-grpc-client 17: two cut connections, and no block is missing", reconnects(&url)).await,
        flow("yellowstone-grpc-client 17: a wrong key and shreds are refused by name", refusals(&url)).await,
        flow("yellowstone-grpc-client 17: accounts are refused by name", accounts(&url)).await,
        flow("helius-laserstream 1.1: unary calls", laserstream_unary(&url)).await,
        flow("helius-laserstream 1.1: a cut connection, and no block is missing", laserstream_reconnects(&url)).await,
        flow("helius-laserstream 1.1: blocks with updates within the slot", laserstream_within_slots(&url)).await,
    ];
    std::process::exit(i32::from(outcomes.contains(&false)));
}
