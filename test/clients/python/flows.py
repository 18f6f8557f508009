"""solana-py and solders: every method of AsyncClient, tokens, versioned transactions, errors and subscriptions."""

import asyncio
import base64
import json
import os
import urllib.request

from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed, Finalized, Processed
from solana.rpc.models import TokenAccountOpts, TxOpts
from solana.rpc.websocket_api import SolanaWsClient
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.rpc.config import RpcTransactionLogsFilterMentions
from solders.signature import Signature
from solders.system_program import (
    CreateAccountParams,
    TransferParams,
    create_account,
    transfer,
)
from solders.sysvar import CLOCK
from solders.transaction import VersionedTransaction
from solders.transaction_status import TransactionDetails
from spl.token import instructions as token
from spl.token import models
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from websockets.asyncio.client import connect

URL = os.environ["PARHELION_URL"]
WS = os.environ["PARHELION_WS"]
ENCODINGS = ["json", "jsonParsed", "base58", "base64"]


async def flow(name, step):
    try:
        result = await asyncio.wait_for(step(), 90)
    except Exception as error:  # any failure of a client is a finding
        text = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"not ok {name}: {text[:400]}", flush=True)
        return None
    print(f"ok {name}", flush=True)
    return result


def check(condition, text):
    if not condition:
        raise AssertionError(text)


async def raises(step, part):
    try:
        await step()
    except Exception as error:
        check(part in f"{type(error).__name__} {error!r}", f"another error: {error!r}")
        return
    raise AssertionError(f"no error, {part} was expected")


async def send(client, payer, instructions, signers=(), tables=(), opts=None):
    """Signs a version 0 transaction, sends it and waits until it is confirmed."""
    latest = (await client.get_latest_blockhash(Confirmed)).value
    message = MessageV0.try_compile(payer.pubkey(), instructions, list(tables), latest.blockhash)
    transaction = VersionedTransaction(message, [payer, *signers])
    opts = opts or TxOpts(skip_confirmation=True, preflight_commitment=Confirmed)
    signature = (await client.send_raw_transaction(bytes(transaction), opts)).value
    await client.confirm_transaction(signature, Confirmed, sleep_seconds=0.2)
    return signature, transaction


async def funded(client, lamports=5_000_000_000):
    keypair = Keypair()
    signature = (await client.request_airdrop(keypair.pubkey(), lamports, Confirmed)).value
    await client.confirm_transaction(signature, Confirmed, sleep_seconds=0.2)
    return keypair


async def create_mint(client, payer, program):
    """A mint of two decimals and 1,000 units of it; returns the mint and the payer's token account."""
    mint = Keypair()
    rent = (await client.get_minimum_balance_for_rent_exemption(82)).value
    account = token.get_associated_token_address(payer.pubkey(), mint.pubkey(), program)
    await send(
        client,
        payer,
        [
            create_account(
                CreateAccountParams(
                    from_pubkey=payer.pubkey(), to_pubkey=mint.pubkey(), lamports=rent, space=82, owner=program
                )
            ),
            token.initialize_mint2(
                models.InitializeMint2Params(
                    decimals=2, mint=mint.pubkey(), program_id=program, mint_authority=payer.pubkey()
                )
            ),
            token.create_associated_token_account(payer.pubkey(), payer.pubkey(), mint.pubkey(), program),
            token.mint_to(
                models.MintToParams(
                    amount=1_000, dest=account, mint=mint.pubkey(), mint_authority=payer.pubkey(), program_id=program
                )
            ),
        ],
        [mint],
    )
    return mint.pubkey(), account


async def methods(client, payer, mint, account, signature):
    """Each method of AsyncClient that a node offers, by name."""
    key = payer.pubkey()
    slot = (await client.get_slot(Confirmed)).value
    by_mint = TokenAccountOpts(mint=mint)
    latest = (await client.get_latest_blockhash(Confirmed)).value
    message = MessageV0.try_compile(key, [transfer(TransferParams(from_pubkey=key, to_pubkey=key, lamports=1))], [], latest.blockhash)
    calls = {
        "is_connected": lambda: client.is_connected(),
        "get_balance": lambda: client.get_balance(key, Confirmed),
        "get_block_commitment": lambda: client.get_block_commitment(slot),
        "get_block_height": lambda: client.get_block_height(Confirmed),
        "get_block_time": lambda: client.get_block_time(slot),
        "get_blocks": lambda: client.get_blocks(slot - 5, slot),
        "get_cluster_nodes": lambda: client.get_cluster_nodes(),
        "get_epoch_info": lambda: client.get_epoch_info(),
        "get_epoch_schedule": lambda: client.get_epoch_schedule(),
        "get_fee_for_message": lambda: client.get_fee_for_message(message, Confirmed),
        "get_first_available_block": lambda: client.get_first_available_block(),
        "get_genesis_hash": lambda: client.get_genesis_hash(),
        "get_identity": lambda: client.get_identity(),
        "get_inflation_governor": lambda: client.get_inflation_governor(),
        "get_inflation_rate": lambda: client.get_inflation_rate(),
        "get_largest_accounts": lambda: client.get_largest_accounts(),
        "get_leader_schedule": lambda: client.get_leader_schedule(),
        "get_minimum_ledger_slot": lambda: client.get_minimum_ledger_slot(),
        "get_multiple_accounts": lambda: client.get_multiple_accounts([key, mint], Confirmed),
        "get_multiple_accounts_json_parsed": lambda: client.get_multiple_accounts_json_parsed([key, mint], Confirmed),
        "get_program_accounts": lambda: client.get_program_accounts(TOKEN_PROGRAM_ID, Confirmed, "base64"),
        "get_program_accounts_json_parsed": lambda: client.get_program_accounts_json_parsed(TOKEN_PROGRAM_ID, Confirmed),
        "get_recent_performance_samples": lambda: client.get_recent_performance_samples(4),
        "get_recent_prioritization_fees": lambda: client.get_recent_prioritization_fees([key]),
        "get_signature_statuses": lambda: client.get_signature_statuses([signature]),
        "get_signatures_for_address": lambda: client.get_signatures_for_address(key, limit=3, commitment=Confirmed),
        "get_slot_leader": lambda: client.get_slot_leader(),
        "get_slot_leaders": lambda: client.get_slot_leaders(slot, 4),
        "get_supply": lambda: client.get_supply(),
        "get_token_account_balance": lambda: client.get_token_account_balance(account, Confirmed),
        "get_token_accounts_by_owner": lambda: client.get_token_accounts_by_owner(key, by_mint, Confirmed),
        "get_token_accounts_by_owner_json_parsed": lambda: client.get_token_accounts_by_owner_json_parsed(key, by_mint, Confirmed),
        "get_token_accounts_by_delegate": lambda: client.get_token_accounts_by_delegate(key, by_mint, Confirmed),
        "get_token_largest_accounts": lambda: client.get_token_largest_accounts(mint, Confirmed),
        "get_token_supply": lambda: client.get_token_supply(mint, Confirmed),
        "get_transaction_count": lambda: client.get_transaction_count(),
        "get_version": lambda: client.get_version(),
        "get_vote_accounts": lambda: client.get_vote_accounts(),
    }
    for name, call in calls.items():
        await flow(f"AsyncClient.{name}", call)


async def zstd(client, payer, mint):
    """solders decodes the frames; what comes out has to be what base64 gives."""
    plain = (await client.get_account_info(mint, Confirmed)).value
    check((await client.get_account_info(mint, Confirmed, "base64+zstd")).value.data == plain.data, "other data")
    many = (await client.get_multiple_accounts([payer.pubkey(), mint], Confirmed, "base64+zstd")).value
    check(many[1].data == plain.data, "other data among many")
    all_of = (await client.get_program_accounts(TOKEN_PROGRAM_ID, Confirmed, "base64+zstd")).value
    check(any(one.pubkey == mint and one.account.data == plain.data for one in all_of), "the mint is missing")


async def blocks(client, signature):
    """One transaction and its block in every encoding with every amount of detail."""
    found = (await client.get_transaction(signature, "json", Confirmed, 0)).value
    for encoding in ENCODINGS:
        one = (await client.get_transaction(signature, encoding, Confirmed, 0)).value
        check(one.slot == found.slot, f"another slot in {encoding}")
        for details in [TransactionDetails.Full, TransactionDetails.Accounts, TransactionDetails.Signatures, TransactionDetails.None_]:
            block = (await client.get_block(found.slot, encoding, 0, details, True, Confirmed)).value
            check(block.parent_slot < found.slot, "the parent is not below the block")
            if details == TransactionDetails.Signatures:
                check(signature in block.signatures, "the signature is missing in its block")


async def resend(client, payer):
    """The usual loop of senders: no preflight, no retries by the node, the same bytes again and again."""
    latest = (await client.get_latest_blockhash(Confirmed)).value
    instruction = transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=Keypair().pubkey(), lamports=2_000_000))
    message = MessageV0.try_compile(payer.pubkey(), [instruction], [], latest.blockhash)
    wire = bytes(VersionedTransaction(message, [payer]))
    opts = TxOpts(skip_preflight=True, max_retries=0)
    signatures = set()
    for _ in range(4):
        signatures.add((await client.send_raw_transaction(wire, opts)).value)
        await asyncio.sleep(0.5)
    check(len(signatures) == 1, "several signatures for one transaction")
    stale = MessageV0.try_compile(payer.pubkey(), [instruction], [], Hash.new_unique())
    await client.send_raw_transaction(bytes(VersionedTransaction(stale, [payer])), opts)


async def context_of_preflight(client, payer):
    """What a wallet adapter does: the slot of the blockhash is the least slot for the transaction."""
    for commitment in [Processed, Confirmed, Finalized]:
        latest = await client.get_latest_blockhash(commitment)
        message = MessageV0.try_compile(
            payer.pubkey(), [transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=payer.pubkey(), lamports=3))], [], latest.value.blockhash
        )
        wire = base64.b64encode(bytes(VersionedTransaction(message, [payer]))).decode()
        options = {"encoding": "base64", "minContextSlot": latest.context.slot, "preflightCommitment": str(commitment)}
        answer = await raw("sendTransaction", [wire, options])
        check("result" in answer, f"{commitment}: {answer}")


async def raw(method, params):
    """A call as plain JSON, for forms that the client cannot write."""
    return await post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


async def post(body, headers=None):
    request = urllib.request.Request(URL, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})

    def call():
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    return await asyncio.to_thread(call)


async def lookup_table(client, payer):
    """Creates a table, fills it, and sends a version 0 transaction that uses it."""
    program = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")
    slot = (await client.get_slot(Finalized)).value
    table, bump = Pubkey.find_program_address([bytes(payer.pubkey()), slot.to_bytes(8, "little")], program)
    system = Pubkey.default()
    create = Instruction(
        program,
        (0).to_bytes(4, "little") + slot.to_bytes(8, "little") + bytes([bump]),
        [AccountMeta(table, False, True), AccountMeta(payer.pubkey(), True, False), AccountMeta(payer.pubkey(), True, True), AccountMeta(system, False, False)],
    )
    target = Keypair().pubkey()
    extend = Instruction(
        program,
        (2).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(target),
        [AccountMeta(table, False, True), AccountMeta(payer.pubkey(), True, False), AccountMeta(payer.pubkey(), True, True), AccountMeta(system, False, False)],
    )
    await send(client, payer, [create, extend])
    await asyncio.sleep(1.5)
    signature, _ = await send(
        client,
        payer,
        [transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=target, lamports=3_000_000))],
        tables=[AddressLookupTableAccount(table, [target])],
    )
    found = (await client.get_transaction(signature, "json", Confirmed, 0)).value
    check(list(found.transaction.meta.loaded_addresses.writable) == [target], "the table was not used")


async def errors(client, payer):
    """Errors arrive as what they are."""
    unfunded = Keypair()
    latest = (await client.get_latest_blockhash(Confirmed)).value
    instruction = transfer(TransferParams(from_pubkey=unfunded.pubkey(), to_pubkey=payer.pubkey(), lamports=1))
    message = MessageV0.try_compile(unfunded.pubkey(), [instruction], [], latest.blockhash)
    wire = bytes(VersionedTransaction(message, [unfunded]))
    await raises(lambda: client.send_raw_transaction(wire, TxOpts(preflight_commitment=Confirmed)), "AccountNotFound")
    await raises(lambda: client.get_block(10**12, max_supported_transaction_version=0), "10000000000")
    forged = VersionedTransaction.populate(message, [Signature.default()])
    simulated = (await client.simulate_transaction(forged, sig_verify=True)).value
    check("SignatureFailure" in str(simulated.err), f"a forged signature: {simulated.err}")
    # No epoch has ended on a chain this young.
    await raises(lambda: client.get_inflation_reward([payer.pubkey()], 0), "BlockNotAvailable")
    for params in ([], [1], {"a": 1}, None):
        answer = await raw("noSuchMethod", params)
        check(answer["error"]["code"] == -32601, f"{params}: {answer}")


async def default_encoding(payer, account):
    """Without an encoding getMultipleAccounts gives base64."""
    answer = await raw("getMultipleAccounts", [[str(account)], {"commitment": "confirmed"}])
    check(answer["result"]["value"][0]["data"][1] == "base64", str(answer)[:200])
    answer = await raw("getMultipleAccounts", [[str(payer.pubkey())]])
    check(answer["result"]["value"][0] is None or answer["result"]["value"][0]["data"] == ["", "base64"], str(answer)[:200])


async def gzip_header():
    """A header that is wrong about a plain body is no reason to refuse it."""
    answer = await post({"jsonrpc": "2.0", "id": 9007199254740993, "method": "getSlot"}, {"Content-Encoding": "gzip"})
    check(answer["id"] == 9007199254740993 and "result" in answer, str(answer))


async def notified(subscribe, act, count=1):
    """Subscribes, acts, and returns the first notifications."""
    async with SolanaWsClient(WS) as ws:
        subscription = await subscribe(ws)
        done = asyncio.ensure_future(act()) if act is not None else None
        got = [await asyncio.wait_for(ws.recv(), 30) for _ in range(count)]
        if done is not None:
            await done
        try:
            await ws.unsubscribe(subscription)
        except Exception as error:
            # A signature subscription has ended by itself.
            check("ubscription" in f"{type(error).__name__}{error}", repr(error))
        return got


async def subscriptions(client, payer):
    key = payer.pubkey()

    async def pay():
        return await send(client, payer, [transfer(TransferParams(from_pubkey=key, to_pubkey=Keypair().pubkey(), lamports=1_500_000))])

    await flow("ws slot", lambda: notified(lambda ws: ws.slot_subscribe(), None, 2))
    await flow("ws root", lambda: notified(lambda ws: ws.root_subscribe(), None, 2))
    await flow("ws slotsUpdates", lambda: notified(lambda ws: ws.slots_updates_subscribe(), None, 2))
    await flow("ws account", lambda: notified(lambda ws: ws.account_subscribe(pubkey=key, commitment=Confirmed, encoding="base64"), pay))
    await flow("ws account base64+zstd", lambda: notified(lambda ws: ws.account_subscribe(pubkey=key, commitment=Confirmed, encoding="base64+zstd"), pay))
    await flow("ws account jsonParsed", lambda: notified(lambda ws: ws.account_subscribe(pubkey=key, commitment=Processed, encoding="jsonParsed"), pay))
    await flow("ws program", lambda: notified(lambda ws: ws.program_subscribe(program_id=Pubkey.default(), commitment=Confirmed, encoding="base64"), pay))
    await flow("ws logs", lambda: notified(lambda ws: ws.logs_subscribe(filter_=RpcTransactionLogsFilterMentions(key), commitment=Confirmed), pay))

    async def clock():
        slots = [one.result.context.slot for one in await notified(lambda ws: ws.account_subscribe(pubkey=CLOCK, commitment=Processed, encoding="base64"), None, 4)]
        check(all(later == earlier + 1 for earlier, later in zip(slots, slots[1:])), f"not one per slot: {slots}")

    await flow("ws clock of every slot", clock)

    async def received():
        """Read without solders, which does not know the text of the first notification."""
        latest = (await client.get_latest_blockhash(Confirmed)).value
        message = MessageV0.try_compile(key, [transfer(TransferParams(from_pubkey=key, to_pubkey=key, lamports=5))], [], latest.blockhash)
        transaction = VersionedTransaction(message, [payer])
        options = {"commitment": "confirmed", "enableReceivedNotification": True}
        async with connect(WS) as socket:
            params = [str(transaction.signatures[0]), options]
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "signatureSubscribe", "params": params}))
            await socket.recv()
            await client.send_raw_transaction(bytes(transaction), TxOpts(preflight_commitment=Confirmed))
            values = [json.loads(await asyncio.wait_for(socket.recv(), 30))["params"]["result"]["value"] for _ in range(2)]
        check(values == ["receivedSignature", {"err": None}], str(values))

    await flow("ws signature, received first", received)


async def main():
    async with AsyncClient(URL, Confirmed, timeout=60, http2=False) as client:
        payer = await flow("airdrop", lambda: funded(client))
        made = await flow("create mint, SPL Token", lambda: create_mint(client, payer, TOKEN_PROGRAM_ID))
        await flow("create mint, Token-2022", lambda: create_mint(client, payer, TOKEN_2022_PROGRAM_ID))
        sent = await flow("send and confirm", lambda: send(client, payer, [transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=Keypair().pubkey(), lamports=1_000_000))]))
        if payer is None or made is None or sent is None:
            return
        mint, account = made
        await methods(client, payer, mint, account, sent[0])
        await flow("base64+zstd", lambda: zstd(client, payer, mint))
        await flow("blocks in all encodings", lambda: blocks(client, sent[0]))
        await flow("resend without preflight", lambda: resend(client, payer))
        await flow("minContextSlot of the blockhash", lambda: context_of_preflight(client, payer))
        await flow("lookup table", lambda: lookup_table(client, payer))
        await flow("simulate", lambda: client.simulate_transaction(sent[1], replace_recent_blockhash=True, inner_instructions=True))
        await flow("errors", lambda: errors(client, payer))
        await flow("getMultipleAccounts without encoding", lambda: default_encoding(payer, account))
        await flow("Content-Encoding of a plain body, large id", gzip_header)
        await subscriptions(client, payer)


asyncio.run(main())
