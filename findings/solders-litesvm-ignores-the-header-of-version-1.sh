#!/usr/bin/env bash
# solders 0.29.0: its LiteSVM executes version 1 transactions without the limits and the fee of their header; litesvm
# 1.5.0 obeys them.
#
# Expected: one engine in two languages. In version 1 (SIMD-0385) compute units, loaded data and priority fee are
#   fields of the header; an unset limit is zero; ComputeBudget instructions set nothing. Both engines accept version
#   1, so both should refuse what a cluster fails.
# Happens: the same bytes give two results. solders runs a transfer with no limits, with a limit of 1 compute unit (it
#   uses 150), and with a limit of 1 byte of loaded data; it never charges the priority fee, and it obeys
#   ComputeBudget instructions instead.
# Hurts: Python senders that move to version 1 and test there. All is green, the fees look right, and on a cluster the
#   transaction fails and pays.
# Instead: always set both limits; test version 1 with litesvm of npm or on a real node.
#
# Needs node 20.18 or newer, npm, Python 3.11 or newer with venv.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --no-audit --no-fund --ignore-scripts --silent \
  litesvm@1.5.0 @solana/kit@8.4.0 @solana-program/system@0.14.1 @solana-program/compute-budget@0.18.1 >&2
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check solders==0.29.0 >&2

cat > run.mjs <<'JS'
import { writeFileSync } from 'node:fs';
import { getSetComputeUnitLimitInstruction, getSetComputeUnitPriceInstruction } from '@solana-program/compute-budget';
import { getTransferSolInstruction } from '@solana-program/system';
import * as kit from '@solana/kit';
import { LiteSVM } from 'litesvm';

const payer = await kit.createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(7));
const limits = (units, bytes) => (m) =>
  kit.setTransactionMessageLoadedAccountsDataSizeLimit(bytes, kit.setTransactionMessageComputeUnitLimit(units, m));
const enough = limits(10_000, 1_000_000);
const cases = [
  ['no limits', (m) => m, []],
  ['1 compute unit', limits(1, 1_000_000), []],
  ['1 byte of loaded data', limits(10_000, 1), []],
  ['enough, priority fee of 7,777', (m) => kit.setTransactionMessagePriorityFeeLamports(7777n, enough(m)), []],
  ['enough, and instructions: 1,000 units at 1 lamport', enough,
    [getSetComputeUnitLimitInstruction({ units: 1000 }), getSetComputeUnitPriceInstruction({ microLamports: 1_000_000n })]],
  ['enough, and an instruction: 100 units', enough, [getSetComputeUnitLimitInstruction({ units: 100 })]],
];

const rows = [];
for (const [index, [name, configure, before]] of cases.entries()) {
  const svm = new LiteSVM().withBlockhashCheck(false);
  svm.airdrop(payer.address, kit.lamports(10n ** 10n));
  const transfer = getTransferSolInstruction({ source: payer, destination: payer.address, amount: BigInt(index + 1) });
  const message = kit.pipe(
    kit.createTransactionMessage({ version: 1 }),
    (m) => kit.setTransactionMessageFeePayerSigner(payer, m),
    (m) => kit.setTransactionMessageLifetimeUsingBlockhash({ blockhash: payer.address, lastValidBlockHeight: 1n }, m),
    (m) => kit.appendTransactionMessageInstructions([...before, transfer], m),
    configure,
  );
  const transaction = await kit.signTransactionMessageWithSigners(message);
  const result = svm.sendTransaction(transaction);
  const ok = !('err' in result);
  rows.push({
    name,
    bytes: kit.getBase64EncodedWireTransaction(transaction),
    npm: { ok, fee: 10 ** 10 - Number(svm.getBalance(payer.address)) },
  });
}
writeFileSync('rows.json', JSON.stringify({ payer: payer.address, rows }));
JS
node run.mjs

cat > run.py <<'PY'
import base64, json, sys
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

data = json.load(open('rows.json'))
payer = Pubkey.from_string(data['payer'])
print('the same bytes, version 1:'.ljust(54), 'litesvm 1.5.0'.ljust(20), 'solders 0.29.0')
found = []
for row in data['rows']:
    svm = LiteSVM().with_blockhash_check(False)
    svm.airdrop(payer, 10**10)
    result = svm.send_transaction(VersionedTransaction.from_bytes(base64.b64decode(row['bytes'])))
    ours = {'ok': not hasattr(result, 'err'), 'fee': 10**10 - svm.get_balance(payer)}
    say = lambda r: f"{'lands' if r['ok'] else 'fails'}, fee {r['fee']:,}"
    print('  ' + row['name'].ljust(52), say(row['npm']).ljust(20), say(ours))
    found.append((row['npm']['ok'], ours['ok'], ours['fee']))
expected = [(False, True, 5000), (False, True, 5000), (False, True, 5000), (True, True, 5000), (True, True, 6000), (True, False, 5000)]
if found != expected:
    sys.exit(f'CHANGED: {found}')
PY
venv/bin/python run.py
