//! Calls a daemon with the SDK for Rust. PARHELION_ACCOUNT is an account with more lamports than a double holds.

use std::fmt::Debug;
use std::net::TcpListener;
use std::panic::catch_unwind;
use std::time::Duration;

use parhelion_sdk::{types, Client, Error, Kind};
use serde_json::{json, Value};

const LAMPORTS: u64 = 9_007_199_254_740_993;

fn env(name: &str) -> String {
    std::env::var(name).expect(name)
}

fn client() -> Client {
    Client::new(&env("PARHELION_BASE"), Some(&env("PARHELION_KEY")))
}

/// The error of a call that has to fail with this kind, status and code.
fn refusal<T: Debug>(outcome: Result<T, Error>, kind: Kind, status: Option<u16>, code: Option<i64>) -> Error {
    let error = outcome.expect_err("it has to fail");
    assert_eq!((error.kind, error.status, error.code), (kind, status, code), "{error:?}");
    error
}

fn routes() {
    let (client, account) = (client(), env("PARHELION_ACCOUNT"));
    let query = types::GetWalletBalancesQuery { limit: Some(10), show_native: Some(true), ..Default::default() };
    let balances = client.get_wallet_balances(&account, &query).unwrap().balances;
    assert_eq!(balances[0].symbol.as_deref(), Some("SOL"));
    assert!(!client.get_ping().unwrap().is_empty());
    let wanted = types::NewWebhook {
        webhook_url: "https://example.org/hook".into(),
        webhook_type: Some("raw".into()),
        account_addresses: Some(vec![account]),
        ..Default::default()
    };
    let id = client.post_webhooks(&wanted).unwrap().webhook_id;
    let change = types::WebhookChange { name: Some("Größe".into()), ..Default::default() };
    assert_eq!(client.put_webhook(&id, &change).unwrap().name.as_deref(), Some("Größe"));
    assert!(client.get_webhook_deliveries(&id, &Default::default()).unwrap().data.is_empty());
    client.delete_webhook(&id).unwrap();
    let error = refusal(client.get_webhook(&id), Kind::Http, Some(404), None);
    assert_eq!(error.message, "webhook not found");
    assert!(error.request_id.is_some());
}

fn methods() {
    let (client, account) = (client(), env("PARHELION_ACCOUNT"));
    let options = types::GetBalanceOptions { commitment: Some("confirmed".into()), ..Default::default() };
    assert_eq!(client.rpc().get_balance(&account, Some(&options)).unwrap().value, LAMPORTS);
    let info = client.rpc().get_account_info(&account, None).unwrap().value.unwrap();
    assert_eq!(info.rent_epoch, u64::MAX);
    let params = types::GetPriorityFeeEstimateRequest { account_keys: json!([account]), ..Default::default() };
    assert!(client.rpc().get_priority_fee_estimate(&params).unwrap().priority_fee_estimate.is_some());
    let owned = types::GetAssetsByOwnerParams { owner_address: account, limit: Some(5), ..Default::default() };
    assert_eq!(client.rpc().get_assets_by_owner(&owned).unwrap().limit, 5);
    let slot = client.rpc().get_slot(None).unwrap();
    assert!(client.rpc().get_block_time(slot).unwrap().is_some());
    assert!(!client.call::<String>("getGenesisHash", Value::Null).unwrap().is_empty());
}

fn errors() {
    let params = types::GetAssetParams { id: "x".into(), ..Default::default() };
    refusal(client().rpc().get_asset(&params), Kind::Rpc, Some(200), Some(-32602));
    refusal(client().call::<Value>("noSuchMethod", Value::Null), Kind::Rpc, Some(200), Some(-32601));
    let wrong = Client::new(&env("PARHELION_BASE"), Some("wrong"));
    assert_eq!(refusal(wrong.get_webhooks(), Kind::Http, Some(401), None).message, "Invalid API key");
    refusal(wrong.rpc().get_slot(None), Kind::Rpc, Some(401), Some(-32001));
}

fn limits() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/", silent.local_addr().unwrap());
    let slow = Client::with_timeout(&base, None, Duration::from_millis(100));
    refusal(slow.rpc().get_slot(None), Kind::Timeout, None, None);
    refusal(Client::new("http://127.0.0.1:9", None).get_ping(), Kind::Connection, None, None);
}

fn main() {
    let mut code = 0;
    let flows: [(&str, fn()); 4] = [("routes", routes), ("methods", methods), ("errors", errors), ("limits", limits)];
    for (name, flow) in flows {
        match catch_unwind(flow) {
            Ok(()) => println!("ok {name}"),
            Err(_) => {
                println!("not ok {name}: see above");
                code = 1;
            }
        }
    }
    std::process::exit(code);
}
