"""Calls a daemon with the SDK for Python. PARHELION_ACCOUNT is an account with more lamports than a double holds."""

import os
import socket
import sys

from parhelion_sdk import Parhelion, ParhelionError, types

BASE, KEY, ACCOUNT = (os.environ[name] for name in ("PARHELION_BASE", "PARHELION_KEY", "PARHELION_ACCOUNT"))
LAMPORTS = 9_007_199_254_740_993
client = Parhelion(BASE, KEY)
failures = 0


def flow(step):
    global failures
    try:
        step()
        print("ok", step.__name__, flush=True)
    except Exception as error:
        failures += 1
        print("not ok", f"{step.__name__}: {error!r}", flush=True)


def refusal(call, **facts):
    """The call fails with an error that says this."""
    try:
        answer = call()
    except ParhelionError as error:
        for name, value in facts.items():
            assert getattr(error, name) == value, f"{name} is {getattr(error, name)!r} of {error!r}"
        return error
    raise AssertionError(f"it answered {answer!r}")


@flow
def routes():
    balances = client.get_wallet_balances(ACCOUNT, limit=10, show_native=True)
    assert balances["balances"][0]["symbol"] == "SOL", balances
    assert client.get_ping().strip() != ""
    body: types.NewWebhook = {"webhookURL": "https://example.org/hook", "webhookType": "raw", "accountAddresses": [ACCOUNT]}
    hook = client.post_webhooks(body)["webhookID"]
    assert client.put_webhook(hook, {"name": "Größe"})["name"] == "Größe"
    assert client.get_webhook_deliveries(hook, limit=5)["data"] == []
    assert client.delete_webhook(hook) is None
    error = refusal(lambda: client.get_webhook(hook), kind="http", status=404, code=None, message="webhook not found")
    assert error.request_id


@flow
def methods():
    assert client.rpc.get_balance(ACCOUNT, {"commitment": "confirmed"})["value"] == LAMPORTS
    assert client.rpc.get_account_info(ACCOUNT)["value"]["rentEpoch"] == 2**64 - 1
    assert "priorityFeeEstimate" in client.rpc.get_priority_fee_estimate({"accountKeys": [ACCOUNT]})
    assert client.rpc.get_assets_by_owner(owner_address=ACCOUNT, limit=5)["limit"] == 5
    assert client.rpc.get_block_time(client.rpc.get_slot()) > 0
    assert isinstance(client.call("getGenesisHash"), str)


@flow
def errors():
    refusal(lambda: client.rpc.get_asset(id="x"), kind="rpc", status=200, code=-32602)
    refusal(lambda: client.call("noSuchMethod"), kind="rpc", code=-32601)
    wrong = Parhelion(BASE, "wrong")
    refusal(lambda: wrong.get_webhooks(), kind="http", status=401, message="Invalid API key")
    refusal(lambda: wrong.rpc.get_slot(), kind="rpc", status=401, code=-32001)


@flow
def limits():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        refusal(lambda: Parhelion(base, KEY, timeout=0.1).rpc.get_slot(), kind="timeout", status=None)
        refusal(lambda: Parhelion(base).get_ping(timeout=0.1), kind="timeout")
    refusal(lambda: Parhelion("http://127.0.0.1:9").get_ping(), kind="connection", status=None)


sys.exit(1 if failures else 0)
