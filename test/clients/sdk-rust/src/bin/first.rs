use parhelion_sdk::{types, Client};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // http://127.0.0.1:8787 and KEY
    let client = Client::new(&std::env::var("PARHELION_BASE")?, Some(&std::env::var("PARHELION_KEY")?));
    let wallet = "11111111111111111111111111111111";

    println!("slot {}", client.rpc().get_slot(None)?); // a method of JSON-RPC
    let query = types::GetWalletBalancesQuery { limit: Some(10), ..Default::default() };
    println!("rows {}", client.get_wallet_balances(wallet, &query)?.balances.len()); // a route

    if let Err(error) = client.get_webhook("5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11") {
        println!("{:?} {:?} {}", error.kind, error.status, error.message); // Http Some(404) webhook not found
    }
    Ok(())
}
