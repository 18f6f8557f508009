#!/usr/bin/env bash
# @lightprotocol/stateless.js 0.23.3: with `confirmed`, its default, it never sees the confirmation of a transaction on
# a chain with Alpenglow.
#
# Expected: a client that waits for `confirmed` is content with `finalized`, which is more.
# Happens: sendAndConfirmTx compares confirmationStatus of getSignatureStatuses with the wanted word by ===. With
#   Alpenglow a status goes from `processed` to `finalized` (`confirmed` stands in a few answers of a hundred at most),
#   so the client asks for 80 seconds and throws "confirmation timed out" about a transaction that has landed.
# Hurts: every program that sends compressed tokens or accounts since mainnet moved in October 2026; a retry then
#   sends the payment again.
# Instead: createRpc(url, url, url, { commitment: 'finalized' }).
#
# Needs node 20.18 or newer and npm. It runs with a clock of its own, so that it takes seconds.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --no-audit --no-fund --ignore-scripts --silent @lightprotocol/stateless.js@0.23.3 @solana/web3.js@1.99.0 >&2

cat > run.cjs <<'JS'
const { mock } = require('node:test');
const { confirmTx } = require('@lightprotocol/stateless.js');

/** A node that has the transaction at `confirmationStatus` since the first question. */
const nodeWith = (confirmationStatus) => ({
  commitment: 'confirmed',
  rpcEndpoint: 'http://127.0.0.1:8899',
  asked: 0,
  async getSignatureStatuses() {
    this.asked += 1;
    return { context: { slot: 5 }, value: [{ slot: 4, confirmations: null, err: null, confirmationStatus }] };
  },
  getSlot: async () => 5,
  confirmTransactionIndexed: async () => true,
});

async function outcome(confirmationStatus, options) {
  const node = nodeWith(confirmationStatus);
  const done = confirmTx(node, 'signature', options).then(
    () => 'confirmed',
    (error) => (/confirmation timed out/.test(error.message) ? 'timed out' : error.message),
  );
  for (let second = 0; second < 90; second += 1) {
    mock.timers.tick(1_000);
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  }
  return { confirmationStatus, wanted: options?.commitment ?? 'confirmed (default)', result: await done };
}

(async () => {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const rows = [
    await outcome('confirmed'),
    await outcome('finalized'),
    await outcome('finalized', { commitment: 'finalized' }),
  ];
  mock.timers.reset();
  console.log('@lightprotocol/stateless.js 0.23.3');
  console.table(rows);
  const results = rows.map(({ result }) => result).join();
  if (results !== 'confirmed,timed out,confirmed') {
    console.error(`CHANGED: ${results}`);
    process.exit(1);
  }
})();
JS
node run.cjs
