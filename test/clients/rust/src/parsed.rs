//! Parsed Events, scans and Parsed Streams of the crate: what it sends, and that its types hold every member of each answer.

use crate::{check, env, flow, Outcome};
use futures_util::StreamExt;
use helius::config::Config;
use helius::error::HeliusError;
use helius::parsed_streams::{ParsedStreamsClient, ParsedStreamsOptions, ParsedTransactionSubscription};
use helius::types::parsed_events::*;
use helius::types::parsed_streams::*;
use helius::types::{ApiKey, Cluster, HeliusEndpoints};
use helius::Helius;
use serde_json::Value;
use solana_client::rpc_config::RpcSendTransactionConfig;
use solana_commitment_config::CommitmentConfig;
use solana_sdk::pubkey::Pubkey;
use solana_sdk::signature::{Keypair, Signer};
use solana_sdk::transaction::Transaction;
use solana_system_interface::instruction::transfer;
use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

type Answer<T> = Result<T, Box<dyn Error>>;

const SYSTEM_PROGRAM: &str = "11111111111111111111111111111111";
/// The tag of `transfer` among the instructions of the system program.
const TRANSFER_TAG: &str = "0x02000000";
const LAMPORTS: u64 = 1_000_000;

/// The builder leads these calls to the hosted service; a configuration by hand does not, on loopback.
fn client() -> Answer<Helius> {
    let base = format!("{}/", env("PARHELION_BASE"));
    let config = Config {
        api_key: Some(ApiKey::new(env("PARHELION_KEY"))?),
        cluster: Cluster::MainnetBeta,
        endpoints: HeliusEndpoints { api: base.clone(), rpc: base },
        custom_url: None,
    };
    Ok(config.create_client()?)
}

/// Sends payments of a number of lamports each and waits until they are confirmed; those that exceed the balance fail on the chain.
async fn pay(helius: &Helius, payer: &Keypair, to: Pubkey, amounts: Vec<u64>) -> Answer<Vec<String>> {
    let (connection, payer) = (helius.connection(), payer.insecure_clone());
    let signatures = tokio::task::spawn_blocking(move || -> Result<Vec<String>, String> {
        let config = RpcSendTransactionConfig { skip_preflight: true, ..Default::default() };
        let mut signatures = Vec::new();
        for lamports in amounts {
            let blockhash = connection.get_latest_blockhash().map_err(|error| error.to_string())?;
            let payment = transfer(&payer.pubkey(), &to, lamports);
            let signed = Transaction::new_signed_with_payer(&[payment], Some(&payer.pubkey()), &[&payer], blockhash);
            let signature = connection.send_transaction_with_config(&signed, config).map_err(|error| error.to_string())?;
            let mut left = 200;
            while connection
                .get_signature_status_with_commitment(&signature, CommitmentConfig::confirmed())
                .map_err(|error| error.to_string())?
                .is_none()
            {
                left -= 1;
                if left == 0 {
                    return Err(format!("{signature} was not confirmed"));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            signatures.push(signature.to_string());
        }
        Ok(signatures)
    });
    Ok(signatures.await??)
}

/// The daemon indexes an address with the first call for it, and answers 503 until it has.
async fn indexed<T, F: Future<Output = helius::error::Result<T>>>(call: impl Fn() -> F) -> Answer<T> {
    for _ in 0..100 {
        match call().await {
            Err(HeliusError::Unknown { code, .. }) if code.as_u16() == 503 => {}
            outcome => return Ok(outcome?),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("503 for too long".into())
}

/// The types take an absent member for one that is null.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            members.into_iter().filter(|(_, member)| !member.is_null()).map(|(name, member)| (name, without_nulls(member))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Where two values differ first.
fn difference(left: &Value, right: &Value, place: &str) -> Option<String> {
    let inner: Vec<String> = match (left, right) {
        (Value::Object(one), Value::Object(other)) => one.keys().chain(other.keys()).cloned().collect(),
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => (0..one.len()).map(|at| at.to_string()).collect(),
        _ => return if left == right { None } else { Some(place.into()) },
    };
    inner.iter().find_map(|name| {
        let member = |value: &Value| match value {
            Value::Array(items) => name.parse().ok().and_then(|at: usize| items.get(at).cloned()),
            _ => value.get(name).cloned(),
        };
        let (one, other) = (member(left).unwrap_or_default(), member(right).unwrap_or_default());
        difference(&one, &other, &format!("{place}.{name}"))
    })
}

/// Reads an answer as a type of the crate. Unknown members, and values that an enum does not know, would be lost on the way back.
fn typed<T: serde::Serialize + serde::de::DeserializeOwned>(raw: &[u8]) -> Answer<T> {
    let value: T = serde_json::from_slice(raw)?;
    let (sent, read) = (without_nulls(serde_json::from_slice(raw)?), without_nulls(serde_json::to_value(&value)?));
    match difference(&sent, &read, "answer") {
        None => Ok(value),
        Some(place) => Err(format!("the types do not hold {place}").into()),
    }
}

fn signatures_of(results: &[ParsedTransactionResult]) -> Vec<String> {
    results.iter().map(|one| one.signature.clone()).collect()
}

/// The call was refused with HTTP 400 and a text that names the reason.
fn refused<T>(outcome: helius::error::Result<T>, reason: &str) -> Outcome {
    match outcome {
        Err(HeliusError::BadRequest { text, .. }) if text.contains(reason) => Ok(()),
        Err(error) => Err(format!("not refused because of \"{reason}\": {error}").into()),
        Ok(_) => Err(format!("not refused because of \"{reason}\"").into()),
    }
}

struct Sent {
    payer: String,
    to: String,
    /// Oldest first.
    succeeded: Vec<String>,
    failed: String,
}

async fn transactions(helius: &Helius, sent: &Sent) -> Outcome {
    let unknown = solana_sdk::signature::Signature::from([7; 64]).to_string();
    let transactions = vec![sent.succeeded[0].clone(), unknown, sent.failed.clone(), sent.succeeded[0].clone()];
    let encodings = [RawTransactionEncoding::None, RawTransactionEncoding::Json, RawTransactionEncoding::JsonParsed];
    for raw_transaction in encodings.into_iter().chain([RawTransactionEncoding::Base64]) {
        let request = ParseTransactionsRequest {
            transactions: transactions.clone(),
            commitment: Some(ParsedEventsCommitment::Confirmed),
            raw_transaction: Some(raw_transaction),
        };
        let raw = helius.parsed_events().parse_transactions_raw(request.clone()).await?;
        let results: Vec<ParsedTransactionResult> = typed(&raw)?;
        check(signatures_of(&results) == transactions, "not the signatures asked for, in their order")?;
        let statuses: Vec<ParserStatus> = results.iter().map(|one| one.parser_status).collect();
        check(statuses == [ParserStatus::Ok, ParserStatus::Error, ParserStatus::Ok, ParserStatus::Ok], "wrong statuses")?;
        let missing = results[1].parser_error.as_ref().ok_or("no parser_error")?;
        check(missing.code == "transaction_not_found" && results[1].parsed.is_none(), "the unknown one was found")?;
        let with_raw = results.iter().filter(|one| one.raw_transaction.is_some()).count();
        check(with_raw == if raw_transaction == RawTransactionEncoding::None { 0 } else { 3 }, "raw transactions")?;

        let paid = results[0].parsed.as_ref().ok_or("nothing parsed")?;
        check(paid.fee_payer.as_ref() == Some(&sent.payer) && paid.fee >= 5_000, "not the fee payer, or no fee")?;
        check(paid.transaction_status == ParsedTransactionStatus::Ok && paid.error.is_none(), "not a success")?;
        let moved = paid.native_transfers.first().ok_or("no transfer")?;
        check(moved.amount == LAMPORTS && moved.to_user_account.as_ref() == Some(&sent.to), "another transfer")?;
        check(paid.summary.as_ref().is_some_and(|one| one.summary_type == "transfer"), "not summed up as a transfer")?;
        let [instruction] = paid.instructions.as_slice() else { return Err("not one instruction".into()) };
        check(instruction.instruction_name.as_deref() == Some("transfer"), "the instruction has no name")?;
        let decoded = instruction.decoded.as_ref().ok_or("not decoded")?;
        check(decoded.accounts.len() == 2 && decoded.accounts[0].is_signer, "accounts of the instruction")?;

        let failed = results[2].parsed.as_ref().ok_or("the failed one was not parsed")?;
        check(failed.transaction_status == ParsedTransactionStatus::Error && failed.error.is_some(), "no error")?;
        check(failed.native_transfers.is_empty(), "a failed payment moved something")?;
    }
    let many = ParseTransactionsRequest { transactions: vec![sent.failed.clone(); 101], ..Default::default() };
    refused(helius.parsed_events().parse_transactions(many).await, "100 transactions")
}

async fn history_page(helius: &Helius, request: &GetTransactionHistoryRequest) -> Answer<GetTransactionHistoryResponse> {
    let events = helius.parsed_events();
    typed(&indexed(|| events.get_transaction_history_raw(request.clone())).await?)
}

async fn history(helius: &Helius, sent: &Sent) -> Outcome {
    let base = GetTransactionHistoryRequest { address: sent.to.clone(), ..Default::default() };
    for sort_order in [ParsedEventsSortOrder::Asc, ParsedEventsSortOrder::Desc] {
        let mut wanted = sent.succeeded.clone();
        if sort_order == ParsedEventsSortOrder::Desc {
            wanted.reverse();
        }
        let mut found = Vec::new();
        // The first page is asked for with an empty token, which the crate leaves out.
        let mut token = Some(String::new());
        while let Some(pagination_token) = token {
            let request = GetTransactionHistoryRequest {
                limit: Some(2),
                sort_order: Some(sort_order),
                pagination_token: Some(pagination_token),
                ..base.clone()
            };
            let page = history_page(helius, &request).await?;
            check(page.data.len() <= 2, "a page beyond its limit")?;
            found.extend(signatures_of(&page.data));
            token = page.pagination_token;
            check(found.len() <= wanted.len(), "pages without end")?;
        }
        check(found == wanted, "the pages are not the history")?;
    }

    let all = history_page(helius, &base).await?;
    let parsed: Vec<&ParsedTransaction> = all.data.iter().filter_map(|one| one.parsed.as_ref()).collect();
    let at = |index: usize| parsed.get(index).ok_or("too few parsed ones");
    let (newest, oldest) = (at(0)?, at(parsed.len() - 1)?);
    let one = |request| async move { Ok::<_, Box<dyn Error>>(signatures_of(&history_page(helius, &request).await?.data)) };
    let failed = GetTransactionHistoryRequest { status: Some(ParsedEventsStatusFilter::Failed), ..base.clone() };
    check(one(failed).await? == [sent.failed.clone()], "status failed")?;
    let any = GetTransactionHistoryRequest { status: Some(ParsedEventsStatusFilter::Any), ..base.clone() };
    check(one(any).await?.len() == sent.succeeded.len() + 1, "status any")?;
    let inner = GetTransactionHistoryRequest {
        before_signature: sent.succeeded.last().cloned(),
        after_signature: sent.succeeded.first().cloned(),
        sort_order: Some(ParsedEventsSortOrder::Asc),
        ..base.clone()
    };
    check(one(inner).await? == sent.succeeded[1..sent.succeeded.len() - 1], "bounds by signature")?;
    let slots = ComparisonBounds { gt: Some(oldest.slot), lte: Some(newest.slot), ..Default::default() };
    let within = parsed.iter().filter(|one| one.slot > oldest.slot).count();
    let by_slot = GetTransactionHistoryRequest { slot: Some(slots), ..base.clone() };
    check(one(by_slot).await?.len() == within, "bounds by slot")?;
    let until = u64::try_from(newest.block_time.ok_or("no block time")?)?;
    let by_time = |bounds| GetTransactionHistoryRequest { time: Some(bounds), ..base.clone() };
    let later = ComparisonBounds { gt: Some(until), ..Default::default() };
    check(one(by_time(later)).await?.is_empty(), "later than the newest")?;
    let earlier = ComparisonBounds { gte: Some(0), lt: Some(until + 1), ..Default::default() };
    check(one(by_time(earlier)).await?.len() == sent.succeeded.len(), "up to the newest")?;
    for token_accounts in [TokenAccountsFilter::None, TokenAccountsFilter::BalanceChanged, TokenAccountsFilter::All] {
        let request = GetTransactionHistoryRequest {
            token_accounts: Some(token_accounts),
            commitment: Some(ParsedEventsCommitment::Confirmed),
            min_context_slot: Some(newest.slot),
            raw_transaction: Some(RawTransactionEncoding::JsonParsed),
            ..base.clone()
        };
        let page = history_page(helius, &request).await?;
        check(signatures_of(&page.data) == signatures_of(&all.data), "another history with token accounts")?;
        check(page.data.iter().all(|one| one.raw_transaction.is_some()), "no raw transactions")?;
    }
    let finalized = GetTransactionHistoryRequest { commitment: Some(ParsedEventsCommitment::Finalized), ..base.clone() };
    let finalized = one(finalized).await?;
    check(signatures_of(&all.data).ends_with(&finalized), "what is final is not the older part")?;
    let future = GetTransactionHistoryRequest { min_context_slot: Some(u64::from(u32::MAX)), ..base.clone() };
    check(helius.parsed_events().get_transaction_history(future).await.is_err(), "answered before its slot")?;
    let none = GetTransactionHistoryRequest { limit: Some(0), ..base };
    refused(helius.parsed_events().get_transaction_history(none).await, "limit")
}

async fn scan(helius: &Helius, sent: &Sent) -> Outcome {
    let program = |scope| ScanProgramMatch { program_id: SYSTEM_PROGRAM.into(), scope, ..Default::default() };
    let by_name = ScanProgramMatch { instructions: Some(vec!["transfer".into()]), ..program(None) };
    let by_data = ScanProgramMatch { discriminators: Some(vec![TRANSFER_TAG.into()]), ..program(None) };
    let native = |scope| ScanMintMatch { mint: NATIVE_SOL_MINT.into(), scope };
    let programs = |one| ScanMatch { programs: Some(vec![one]), mints: None };
    let mut wanted = sent.succeeded.clone();
    wanted.reverse();
    let base = ScanRequest { address: sent.to.clone(), ..Default::default() };
    let events = helius.parsed_events();
    for criteria in [
        programs(program(None)),
        programs(program(Some(ScanMatchScope::Address))),
        programs(program(Some(ScanMatchScope::Transaction))),
        programs(by_name.clone()),
        programs(by_data.clone()),
        ScanMatch { programs: None, mints: Some(vec![native(None)]) },
        ScanMatch { programs: Some(vec![by_name.clone()]), mints: Some(vec![native(Some(ScanMatchScope::Transaction))]) },
    ] {
        let request = ScanRequest { criteria, ..base.clone() };
        let raw = indexed(|| events.scan_raw(request.clone())).await?;
        let whole: ScanResponse = typed(&raw)?;
        check(signatures_of(&whole.data) == wanted, "not what matches")?;
        check(whole.scan.stopped_on == ScanStopReason::WindowEnd && whole.pagination_token.is_none(), "no end")?;
        check(whole.scan.scanned_transactions == wanted.len() as u64, "scanned_transactions")?;
        check(whole.scan.credits_charged == 11 && whole.scan.scanned_through.is_some(), "the summary of the scan")?;
        check(whole.data.iter().all(|one| one.parsed.is_some()), "not parsed")?;
        let listed = events.scan_signatures(request.clone()).await?;
        let names: Vec<String> = listed.data.iter().map(|one| one.signature.clone()).collect();
        check(names == wanted && listed.data.iter().all(|one| one.block_time.is_some()), "signatures")?;
        let counted = events.scan_count(request).await?;
        check(counted.scan.matched_transactions == wanted.len() as u64, "count")?;
        check(counted.scan.stopped_on == ScanStopReason::WindowEnd, "the count has no end")?;
    }

    let budget = ScanBudget { max_scanned_transactions: Some(2) };
    for (limit, budget, reason) in [(Some(2), None, ScanStopReason::Limit), (None, Some(budget), ScanStopReason::Budget)] {
        let mut found = Vec::new();
        let mut token = Some(String::new());
        while let Some(pagination_token) = token {
            let request = ScanRequest {
                criteria: programs(by_name.clone()),
                limit,
                budget,
                pagination_token: Some(pagination_token),
                ..base.clone()
            };
            let page: ScanResponse = typed(&events.scan_raw(request).await?)?;
            found.extend(signatures_of(&page.data));
            token = page.pagination_token;
            let ends = if token.is_some() { reason } else { ScanStopReason::WindowEnd };
            check(page.scan.stopped_on == ends, "another reason to stop")?;
            check(found.len() <= wanted.len(), "pages without end")?;
        }
        check(found == wanted, "the pages are not the whole")?;
    }

    let nothing = ScanRequest {
        criteria: programs(program(None)),
        time: Some(ComparisonBounds { gt: Some(4_000_000_000), ..Default::default() }),
        ..base.clone()
    };
    let nothing = events.scan(nothing).await?;
    check(nothing.scan.scanned_through.is_none() && nothing.scan.credits_charged == 10, "a scan of nothing")?;
    let failed = ScanRequest {
        criteria: programs(by_data),
        status: Some(ParsedEventsStatusFilter::Failed),
        sort_order: Some(ParsedEventsSortOrder::Asc),
        raw_transaction: Some(RawTransactionEncoding::Base64),
        token_accounts: Some(TokenAccountsFilter::All),
        ..base.clone()
    };
    let failed: ScanResponse = typed(&events.scan_raw(failed).await?)?;
    check(signatures_of(&failed.data) == [sent.failed.clone()], "failed ones")?;
    check(failed.data[0].raw_transaction.is_some(), "no raw transaction")?;
    refused(events.scan(base.clone()).await, "match")?;
    let twice = ScanMatch { programs: Some(vec![program(None), program(None)]), mints: None };
    refused(events.scan(ScanRequest { criteria: twice, ..base.clone() }).await, "twice")?;
    let nameless = ScanProgramMatch { instructions: Some(vec!["no_such_name".into()]), ..program(None) };
    refused(events.scan(ScanRequest { criteria: programs(nameless), ..base }).await, "no interface")
}

async fn next<V: serde::de::DeserializeOwned>(
    subscription: &mut ParsedTransactionSubscription<V>,
) -> Answer<ParsedTransactionNotification<V>> {
    let notification = tokio::time::timeout(Duration::from_secs(30), subscription.next()).await;
    Ok(notification.map_err(|_| "no notification in 30 s")?.ok_or("the stream ended")??)
}

async fn streams(helius: &Helius, payer: &Keypair) -> Outcome {
    let options = ParsedStreamsOptions::default().with_url(env("PARHELION_WS")).with_reconnect(false);
    let client = ParsedStreamsClient::with_options(&env("PARHELION_KEY"), options)?;
    let to = Pubkey::new_unique();
    let filter = ParsedTransactionFilter {
        programs: Some(vec![SYSTEM_PROGRAM.into()]),
        instruction_names: Some(vec!["Transfer".into()]),
        accounts: Some(ParsedTransactionAccountsFilter {
            include: Some(vec![payer.pubkey().to_string()]),
            roles: Some(BTreeMap::from([("destination".into(), to.to_string())])),
        }),
        include_cpi: Some(true),
        ..Default::default()
    };
    let with = |details| Some(ParsedTransactionSubscribeOptions { commitment: Some(ParsedStreamsCommitment::Confirmed), details: Some(details) });
    let mut full = client.parsed_transaction_subscribe(filter.clone(), None).await?;
    let mut matched = client.parsed_transaction_subscribe(filter.clone(), with(ParsedStreamDetails::Matched)).await?;
    let mut raw = client.raw_transaction_subscribe(filter.clone()).await?;
    let with_failed = ParsedTransactionFilter { include_failed: Some(true), ..filter };
    let mut failures = client.parsed_transaction_subscribe(with_failed, with(ParsedStreamDetails::Full)).await?;
    let sent = pay(helius, payer, to, vec![LAMPORTS, u64::MAX / 2, 2 * LAMPORTS]).await?;

    let request = ParseTransactionsRequest { transactions: sent.clone(), ..Default::default() };
    let events = helius.parsed_events().parse_transactions(request).await?;
    for at in [0, 2] {
        let event = events[at].parsed.as_ref().ok_or("not parsed")?;
        let (whole, part, bare) = (next(&mut full).await?, next(&mut matched).await?, next(&mut raw).await?);
        let slots = [whole.context.slot, whole.value.transaction.slot, part.context.slot, bare.context.slot];
        check(slots.iter().all(|slot| *slot == event.slot), "another slot")?;
        let signatures = [&whole.value.transaction.signature, &part.value.transaction.signature, &bare.value.transaction.signature];
        check(signatures.iter().all(|one| **one == sent[at]), "another signature")?;
        let same = |left: Value, right: Value, what: &str| check(without_nulls(left) == without_nulls(right), what);
        let (seen, instruction) = (&whole.value.transaction, &whole.value.instructions[0]);
        check(seen.account_keys.first() == Some(&seen.fee_payer) && seen.fee == event.fee, "fee payer or fee")?;
        check(seen.status == ParsedStreamTransactionStatus::Ok && seen.block_time.is_none(), "status or time")?;
        same(serde_json::to_value(&seen.native_transfers)?, serde_json::to_value(&event.native_transfers)?, "transfers")?;
        same(serde_json::to_value(&seen.summary)?, serde_json::to_value(&event.summary)?, "summaries")?;
        same(serde_json::to_value(&instruction.decoded)?, serde_json::to_value(&event.instructions[0].decoded)?, "decoded")?;
        check(instruction.decoded.is_some() && instruction.raw_data.is_none(), "decoded, and raw beside it")?;
        check(whole.value.matched_indexes == Some(vec![0]), "matched_indexes of full")?;
        check(part.value.matched_indexes.is_none() && part.value.instructions.len() == 1, "matched")?;
        check(bare.value.instructions[0].data == event.instructions[0].raw_data, "data of raw")?;
    }
    for at in [0, 1, 2] {
        let one = next(&mut failures).await?.value.transaction;
        check(one.signature == sent[at], "not each transaction once, in order")?;
        let failed = one.status == ParsedStreamTransactionStatus::Error && one.error.is_some();
        check(failed == (at == 1), "the failed one is not the second")?;
    }
    let id = raw.subscription_id().ok_or("no id")?;
    check(client.parsed_transaction_unsubscribe(id).await, "not unsubscribed by number")?;
    check(raw.next().await.is_none() && full.unsubscribe().await, "not unsubscribed")?;

    let code = |outcome: helius::error::Result<ParsedTransactionSubscription>| match outcome {
        Err(HeliusError::RpcError { code, .. }) => code,
        _ => 0,
    };
    let bad = ParsedTransactionFilter { programs: Some(vec!["no key".into()]), ..Default::default() };
    check(code(client.parsed_transaction_subscribe(bad, None).await) == -32602, "a bad key was taken")?;
    let many = (0..11).map(|_| Pubkey::new_unique().to_string()).collect();
    let many = ParsedTransactionFilter { programs: Some(many), ..Default::default() };
    check(code(client.parsed_transaction_subscribe(many, None).await) == -32000, "11 programs were taken")?;
    client.close();
    Ok(())
}

pub async fn flows(payer: &Keypair) -> Outcome {
    let helius = client()?;
    let to = Pubkey::new_unique();
    let mut succeeded = pay(&helius, payer, to, vec![LAMPORTS, 2 * LAMPORTS, 3 * LAMPORTS]).await?;
    let failed = pay(&helius, payer, to, vec![u64::MAX / 2]).await?.remove(0);
    succeeded.extend(pay(&helius, payer, to, vec![4 * LAMPORTS, 5 * LAMPORTS]).await?);
    let sent = Sent { payer: payer.pubkey().to_string(), to: to.to_string(), succeeded, failed };
    flow("parsed events: transactions", transactions(&helius, &sent)).await;
    flow("parsed events: history", history(&helius, &sent)).await;
    flow("parsed events: scan", scan(&helius, &sent)).await;
    flow("parsed streams", streams(&helius, payer)).await;
    Ok(())
}
