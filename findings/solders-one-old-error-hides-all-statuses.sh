#!/usr/bin/env bash
# solders 0.29.0: one error in the notation of older nodes makes a whole getSignatureStatuses answer unreadable; other
# answers read it.
#
# Expected: nodes before version 3 write this error of an instruction with a text, {"BorshIoError": "Unknown"}, newer
#   ones as the plain name. The client reads both, and getTransaction, getBlock, getSignaturesForAddress and
#   notifications of solders do.
# Happens: getSignatureStatuses reads the new form alone. With the old one the answer, for up to 256 signatures, fails
#   as "data did not match any variant of untagged enum Resp", so every other status is lost too. Nothing in the
#   message names the cause.
# Hurts: senders in Python that poll many signatures at once, against a node, a fork of the chain or an archive that
#   still has the old form. A program that cannot decode its input is enough. The loop fails until that signature
#   leaves the list.
# Instead: on this error ask for signatures in halves, or read the JSON yourself; take the error from getTransaction.
#
# Needs Python 3.11 or newer with venv.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check solders==0.29.0 >&2

cat > run.py <<'PY'
import json, sys
from solders.rpc.responses import GetBlockResp, GetSignatureStatusesResp, GetSignaturesForAddressResp, GetTransactionResp, parse_websocket_message

SIGNATURE = '1' * 64
KEY = '1' * 32
OLD = {'InstructionError': [0, {'BorshIoError': 'Unknown'}]}
NEW = {'InstructionError': [0, 'BorshIoError']}

def answer(result):
    return json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': result})

def context(value):
    return {'context': {'slot': 1}, 'value': value}

def status(error):
    outcome = {'Ok': None} if error is None else {'Err': error}
    return {'slot': 1, 'confirmations': None, 'status': outcome, 'err': error, 'confirmationStatus': 'finalized'}

def transaction(error):
    meta = {
        'err': error, 'status': {'Err': error}, 'fee': 5000, 'preBalances': [1], 'postBalances': [1], 'innerInstructions': [], 'logMessages': [],
        'preTokenBalances': [], 'postTokenBalances': [], 'rewards': [], 'computeUnitsConsumed': 1,
    }
    return {'transaction': ['AA==', 'base64'], 'meta': meta, 'version': 0}

def block(error):
    return {
        'blockHeight': 1, 'blockTime': 1, 'blockhash': KEY, 'parentSlot': 0, 'previousBlockhash': KEY, 'transactions': [transaction(error)],
    }

def notification(error):
    result = context({'signature': SIGNATURE, 'err': error, 'logs': []})
    return json.dumps({'jsonrpc': '2.0', 'method': 'logsNotification', 'params': {'subscription': 1, 'result': result}})

READERS = {
    'getSignaturesForAddress': lambda e: GetSignaturesForAddressResp.from_json(
        answer([{'signature': SIGNATURE, 'slot': 1, 'err': e, 'memo': None, 'blockTime': 1, 'confirmationStatus': 'finalized'}])),
    'getTransaction': lambda e: GetTransactionResp.from_json(answer({**transaction(e), 'slot': 1, 'blockTime': 1})),
    'getBlock': lambda e: GetBlockResp.from_json(answer(block(e))),
    'logsNotification': lambda e: parse_websocket_message(notification(e)),
    'getSignatureStatuses, 1 of 256': lambda e: GetSignatureStatusesResp.from_json(answer(context([*[status(None)] * 255, status(e)]))),
}
print('solders 0.29.0'.ljust(34), 'new form'.ljust(12), 'old form')
found = {}
for name, read in READERS.items():
    seen = []
    for error in (NEW, OLD):
        try:
            read(error)
            seen.append('read')
        except Exception as problem:
            seen.append(f'{type(problem).__name__}: {problem}')
    found[name] = seen
    print('  ' + name.ljust(32), seen[0].ljust(12), seen[1])
broken = [name for name, seen in found.items() if seen[1] != 'read']
if any(seen[0] != 'read' for seen in found.values()) or broken != ['getSignatureStatuses, 1 of 256']:
    sys.exit('CHANGED')
PY
venv/bin/python run.py
