//! Calls a daemon with the Rust SDK of the hosted service.

mod parsed;

use helius::types::*;
use helius::{Helius, HeliusBuilder};
use solana_client::rpc_config::RpcSendTransactionConfig;
use solana_commitment_config::CommitmentConfig;
use solana_sdk::pubkey::Pubkey;
use solana_sdk::signature::{Keypair, Signer};
use solana_system_interface::instruction::transfer;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

const TOKEN_PROGRAM: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
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

fn check(condition: bool, text: &str) -> Outcome {
    if condition { Ok(()) } else { Err(text.into()) }
}

async fn fund(helius: &Helius, key: &Pubkey) -> Outcome {
    let (connection, key) = (helius.connection(), *key);
    let signature = tokio::task::spawn_blocking(move || connection.request_airdrop(&key, 5_000_000_000)).await??;
    for _ in 0..200 {
        let connection = helius.connection();
        let confirmed = tokio::task::spawn_blocking(move || {
            connection.confirm_transaction_with_commitment(&signature, CommitmentConfig::confirmed())
        });
        if confirmed.await??.value {
            // The SDK simulates against final blocks.
            tokio::time::sleep(Duration::from_secs(3)).await;
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("the airdrop was not confirmed".into())
}

/// A payment that the SDK prices, sizes, signs, sends and confirms by itself.
async fn smart(helius: &Helius, payer: &Keypair, version: TransactionVersion) -> Outcome {
    let signer: Arc<dyn Signer> = Arc::new(payer.insecure_clone());
    let config = SmartTransactionConfig {
        create_config: CreateSmartTransactionConfig {
            instructions: vec![transfer(&payer.pubkey(), &Pubkey::new_unique(), 2_000_000)],
            signers: vec![signer],
            version,
            ..Default::default()
        },
        send_options: RpcSendTransactionConfig::default(),
        timeout: Timeout::default(),
    };
    helius.send_smart_transaction(config).await?;
    Ok(())
}

async fn fees(helius: &Helius, payer: &Keypair) -> Outcome {
    let options = GetPriorityFeeEstimateOptions { recommended: Some(true), ..Default::default() };
    let request = GetPriorityFeeEstimateRequest {
        transaction: None,
        account_keys: Some(vec![payer.pubkey().to_string()]),
        options: Some(options),
    };
    let answer = helius.rpc().get_priority_fee_estimate(request).await?;
    check(answer.priority_fee_estimate.is_some_and(|fee| fee >= 10_000.0), "no estimate, or below the floor")
}

async fn webhooks(helius: &Helius, payer: &Keypair) -> Outcome {
    let request = CreateWebhookRequest {
        webhook_url: "http://127.0.0.1:9/hook".into(),
        transaction_types: vec![TransactionType::Any],
        account_addresses: vec![payer.pubkey().to_string()],
        webhook_type: WebhookType::Enhanced,
        ..Default::default()
    };
    let made = helius.create_webhook(request).await?;
    let more = helius.append_addresses_to_webhook(&made.webhook_id, &[Pubkey::new_unique().to_string()]).await?;
    check(more.account_addresses.len() == 2, "the address was not added")?;
    check(helius.get_all_webhooks().await?.iter().any(|one| one.webhook_id == made.webhook_id), "not listed")?;
    helius.get_webhook_by_id(&made.webhook_id).await?;
    helius.delete_webhook(&made.webhook_id).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    let base = env("PARHELION_BASE");
    let helius = HeliusBuilder::new()
        .with_custom_url(format!("{base}/"))?
        .with_custom_api_url(format!("{base}/"))?
        .with_api_key(env("PARHELION_KEY"))?
        .build()
        .await?;
    let payer = Keypair::new();
    let wallet = payer.pubkey().to_string();
    if !flow("airdrop", fund(&helius, &payer.pubkey())).await {
        return Err("nothing else can run".into());
    }

    flow("get_priority_fee_estimate", fees(&helius, &payer)).await;
    flow("send_smart_transaction", smart(&helius, &payer, TransactionVersion::Auto)).await;
    flow("send_smart_transaction, version 1", smart(&helius, &payer, TransactionVersion::V1)).await;
    flow("get_program_accounts_v2", async {
        let config = GetProgramAccountsV2Config { limit: Some(10), encoding: Some(Encoding::Base64), ..Default::default() };
        helius.rpc().get_program_accounts_v2(TOKEN_PROGRAM.into(), config).await?;
        Ok(())
    })
    .await;
    flow("get_all_program_accounts", async {
        let config = GetProgramAccountsV2Config { encoding: Some(Encoding::Base64), ..Default::default() };
        helius.rpc().get_all_program_accounts(TOKEN_PROGRAM.into(), config).await?;
        Ok(())
    })
    .await;
    flow("get_all_token_accounts_by_owner", async {
        let filter = TokenAccountsOwnerFilter::Program { program_id: TOKEN_PROGRAM.into() };
        let config = GetTokenAccountsByOwnerV2Config { encoding: Some(Encoding::JsonParsed), ..Default::default() };
        helius.rpc().get_all_token_accounts_by_owner(wallet.clone(), filter, config).await?;
        Ok(())
    })
    .await;
    flow("get_project_usage", async {
        helius.get_project_usage(&env("PARHELION_PROJECT")).await?;
        Ok(())
    })
    .await;
    flow("get_batch_wallet_identity, one unknown", async {
        let found = helius.get_batch_wallet_identity(&[wallet.clone(), "no-such-name-at-all.sol".into()]).await?;
        check(found.len() == 2, "not one element for each")
    })
    .await;
    flow("get_wallet_balances", async {
        let found = helius.get_wallet_balances(&wallet, None, None, None, Some(true), None).await?;
        check(!found.balances.is_empty(), "SOL is missing")
    })
    .await;
    flow("get_wallet_history", async {
        let found = helius.get_wallet_history(&wallet, Some(10), None, None, None, None).await?;
        check(!found.data.is_empty(), "the history is empty")
    })
    .await;
    flow("webhooks", webhooks(&helius, &payer)).await;
    parsed::flows(&payer).await?;
    flow("get_indexer_health", async { Ok(drop(helius.get_indexer_health().await?)) }).await;
    flow("get_compressed_accounts_by_owner", async {
        let request = GetCompressedAccountsByOwnerRequest { owner: wallet.clone(), ..Default::default() };
        helius.get_compressed_accounts_by_owner(request).await?;
        Ok(())
    })
    .await;
    Ok(())
}
