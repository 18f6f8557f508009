import os

from parhelion_sdk import Parhelion, ParhelionError

# http://127.0.0.1:8787 and KEY
parhelion = Parhelion(os.environ["PARHELION_BASE"], os.environ["PARHELION_KEY"])
wallet = "11111111111111111111111111111111"

print("slot", parhelion.rpc.get_slot())  # a method of JSON-RPC
print("lamports", parhelion.rpc.get_balance(wallet)["value"])
print("rows", len(parhelion.get_wallet_balances(wallet, limit=10)["balances"]))  # a route

try:
    parhelion.get_webhook("5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11")
except ParhelionError as error:
    print(error.kind, error.status, error.message)  # http 404 webhook not found
