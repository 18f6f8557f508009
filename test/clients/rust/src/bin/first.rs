use solana_client::rpc_client::RpcClient;
use solana_commitment_config::CommitmentConfig;
use solana_sdk::pubkey::Pubkey;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("PARHELION_URL")?; // http://127.0.0.1:8787/?api-key=KEY
    let client = RpcClient::new_with_commitment(url, CommitmentConfig::confirmed());
    println!("slot {}", client.get_slot()?);
    let wallet: Pubkey = "11111111111111111111111111111111".parse()?;
    println!("lamports {}", client.get_balance(&wallet)?);
    Ok(())
}
