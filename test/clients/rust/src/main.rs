//! Calls a daemon with the Rust SDK of the hosted service.

use futures_util::StreamExt;
use helius::config::Config;
use helius::error::HeliusError;
use helius::parsed_streams::ParsedStreamsOptions;
use helius::types::parsed_events::{
    GetTransactionHistoryRequest, ParseTransactionsRequest, ParsedEventsSortOrder, ParsedEventsStatusFilter,
    ParserStatus, RawTransactionEncoding, ScanBudget, ScanMatch, ScanMintMatch, ScanProgramMatch, ScanRequest,
    ScanStopReason, NATIVE_SOL_MINT,
};
use helius::types::parsed_streams::{
    ParsedStreamDetails, ParsedStreamTransactionStatus, ParsedTransactionAccountsFilter, ParsedTransactionFilter,
    ParsedTransactionSubscribeOptions,
};
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

const SYSTEM_PROGRAM: &str = "11111111111111111111111111111111";

/// The SDK calls its own host for parsed events, but for a configuration by hand with a loopback address.
fn mainnet_client(base: &str) -> Result<Helius, Box<dyn Error>> {
    let mut config = Config::new(&env("PARHELION_KEY"), Cluster::MainnetBeta)?;
    config.endpoints = HeliusEndpoints { api: format!("{base}/"), rpc: format!("{base}/") };
    Ok(config.create_client()?)
}

async fn pay(helius: &Helius, payer: &Keypair) -> Result<String, Box<dyn Error>> {
    let signer: Arc<dyn Signer> = Arc::new(payer.insecure_clone());
    let config = SmartTransactionConfig {
        create_config: CreateSmartTransactionConfig {
            instructions: vec![transfer(&payer.pubkey(), &Pubkey::new_unique(), 3_000_000)],
            signers: vec![signer],
            ..Default::default()
        },
        send_options: RpcSendTransactionConfig::default(),
        timeout: Timeout::default(),
    };
    Ok(helius.send_smart_transaction(config).await?.to_string())
}

async fn parsed_transactions(helius: &Helius, signature: &str) -> Outcome {
    let unknown = "1".repeat(64);
    let request = ParseTransactionsRequest {
        transactions: vec![unknown, signature.into()],
        raw_transaction: Some(RawTransactionEncoding::Json),
        ..Default::default()
    };
    let found = helius.parsed_events().parse_transactions(request).await?;
    check(found.len() == 2, "not one element for each")?;
    let missing = found[0].parser_error.as_ref().map(|error| error.code.as_str());
    check(missing == Some("transaction_not_found"), "the unknown one is not missing")?;
    let one = &found[1];
    check(one.parser_status == ParserStatus::Ok && one.raw_transaction.is_some(), "the other one is not there")?;
    let parsed = one.parsed.as_ref().ok_or("it is not parsed")?;
    let transfer = parsed.native_transfers.iter().any(|one| one.amount == 3_000_000);
    let named = parsed.instructions.iter().any(|one| one.instruction_name.as_deref() == Some("transfer"));
    check(transfer && named && parsed.summary.is_some(), "what it moved is not told")
}

async fn parsed_history(helius: &Helius, wallet: &str) -> Outcome {
    let events = helius.parsed_events();
    let mut request = GetTransactionHistoryRequest {
        address: wallet.into(),
        limit: Some(1),
        status: Some(ParsedEventsStatusFilter::Any),
        sort_order: Some(ParsedEventsSortOrder::Asc),
        ..Default::default()
    };
    let mut slots = Vec::new();
    for _ in 0..50 {
        let page = events.get_transaction_history(request.clone()).await?;
        slots.extend(page.data.iter().filter_map(|one| one.parsed.as_ref().map(|parsed| parsed.slot)));
        match page.pagination_token {
            Some(token) => request.pagination_token = Some(token),
            None => return check(slots.len() >= 3 && slots.is_sorted(), "the pages lack something, or are out of order"),
        }
    }
    Err("the pages do not end".into())
}

async fn scan(helius: &Helius, wallet: &str) -> Outcome {
    let events = helius.parsed_events();
    let program = ScanProgramMatch {
        program_id: SYSTEM_PROGRAM.into(),
        instructions: Some(vec!["transfer".into()]),
        ..Default::default()
    };
    let mint = ScanMintMatch { mint: NATIVE_SOL_MINT.into(), ..Default::default() };
    let request = ScanRequest {
        address: wallet.into(),
        criteria: ScanMatch { programs: Some(vec![program]), mints: Some(vec![mint]) },
        budget: Some(ScanBudget { max_scanned_transactions: Some(1_000) }),
        ..Default::default()
    };
    let whole = events.scan(request.clone()).await?;
    check(!whole.data.is_empty() && whole.scan.stopped_on == ScanStopReason::WindowEnd, "the scan found nothing")?;
    check(whole.scan.credits_charged == 11, "the price is another one")?;
    let signatures = events.scan_signatures(request.clone()).await?;
    let same = signatures.data.iter().zip(&whole.data).all(|(left, right)| left.signature == right.signature);
    check(same && signatures.data.len() == whole.data.len(), "the signatures are others")?;
    let count = events.scan_count(request.clone()).await?.scan.matched_transactions;
    check(count == whole.data.len() as u64, "the count is another one")?;
    let page = events.scan(ScanRequest { limit: Some(1), ..request.clone() }).await?;
    check(page.data.len() == 1 && page.scan.stopped_on == ScanStopReason::Limit, "the page has another size")?;
    let criteria = ScanMatch::default();
    check(events.scan(ScanRequest { criteria, ..request }).await.is_err(), "a scan for nothing was answered")
}

async fn parsed_streams(parsed: &Helius, helius: &Helius, payer: &Keypair) -> Outcome {
    let client = parsed.parsed_streams_with_options(ParsedStreamsOptions::default().with_url(env("PARHELION_WS")))?;
    let include = Some(vec![payer.pubkey().to_string()]);
    let filter = ParsedTransactionFilter {
        programs: Some(vec![SYSTEM_PROGRAM.into()]),
        accounts: Some(ParsedTransactionAccountsFilter { include, roles: None }),
        ..Default::default()
    };
    let matched = ParsedTransactionSubscribeOptions { details: Some(ParsedStreamDetails::Matched), ..Default::default() };
    let mut full = client.parsed_transaction_subscribe(filter.clone(), None).await?;
    let mut hits = client.parsed_transaction_subscribe(filter.clone(), Some(matched)).await?;
    let mut raw = client.raw_transaction_subscribe(filter).await?;
    let wrong = ParsedTransactionFilter { programs: Some(vec!["nonsense".into()]), ..Default::default() };
    match client.parsed_transaction_subscribe(wrong, None).await {
        Err(HeliusError::RpcError { code: -32602, .. }) => {}
        Err(error) => return Err(format!("another error: {error}").into()),
        Ok(_) => return Err("a filter with no key was taken".into()),
    }
    let signature = pay(helius, payer).await?;
    let one = full.next().await.ok_or("the stream ended")??;
    let at = one.value.matched_indexes.clone().and_then(|all| all.first().copied()).ok_or("nothing matches")?;
    check(one.value.transaction.signature == signature && one.context.slot == one.value.transaction.slot, "another one")?;
    check(one.value.transaction.status == ParsedStreamTransactionStatus::Ok, "it failed")?;
    check(one.value.instructions[at].instruction_name.as_deref() == Some("transfer"), "the match has no name")?;
    let hit = hits.next().await.ok_or("the stream ended")??;
    check(hit.value.matched_indexes.is_none() && hit.value.instructions.len() == 1, "not only the match")?;
    let bare = raw.next().await.ok_or("the stream ended")??;
    check(bare.value.instructions.iter().all(|one| !one.data.is_empty()), "no data")?;
    check(full.unsubscribe().await, "unsubscribing was not confirmed")
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
    let parsed = mainnet_client(&base)?;
    let paid = pay(&helius, &payer).await?;
    flow("parsed_events.parse_transactions", parsed_transactions(&parsed, &paid)).await;
    flow("parsed_events.get_transaction_history", parsed_history(&parsed, &wallet)).await;
    flow("parsed_events.scan, scan_signatures, scan_count", scan(&parsed, &wallet)).await;
    flow("parsed_streams", parsed_streams(&parsed, &helius, &payer)).await;
    flow("get_indexer_health", async { Ok(drop(helius.get_indexer_health().await?)) }).await;
    flow("get_compressed_accounts_by_owner", async {
        let request = GetCompressedAccountsByOwnerRequest { owner: wallet.clone(), ..Default::default() };
        helius.get_compressed_accounts_by_owner(request).await?;
        Ok(())
    })
    .await;
    Ok(())
}
