#!/usr/bin/env bash
# @solana/web3.js 1.99.0: confirmTransaction ends with the failure of a transaction at `processed`, whatever commitment it waits for.
#
# Expected: with `finalized` it waits until the outcome is final. A failure is told in one way.
# Happens: beside its subscription it asks getSignatureStatuses once. A success there has to have the wanted commitment;
#   a failure is thrown at once, also where only one bank has executed the transaction. When that block is dropped and
#   the transaction succeeds in another one, the caller has been told the opposite of what is final. What is thrown is
#   the bare object of the node, without a message or a stack, while the same failure told by the subscription is no
#   exception but `value.err` of the answer.
# Hurts: who pays again after a failure: the first payment may still land. Who reads `error.message` in a catch, or only
#   looks at `value.err`: which of the two comes depends on which answer is faster.
# Instead: after a failure ask getSignatureStatuses until confirmationStatus is the wanted one.
#
# Needs node 20.18 or newer and npm.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --no-audit --no-fund --ignore-scripts --silent @solana/web3.js@1.99.0 ws@8.18.3 >&2

cat > run.cjs <<'JS'
const { createServer } = require('node:http');
const { once } = require('node:events');
const { Connection } = require('@solana/web3.js');
const { WebSocketServer } = require('ws');

const FAILURE = { InstructionError: [0, { Custom: 1 }] };
const SIGNATURE = '1'.repeat(64);
const BLOCKHASH = '1'.repeat(32);

/** A node that has this status when it is asked, and tells its subscribers of the final outcome half a second later. */
async function outcome(name, status, final) {
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method } = JSON.parse(body);
    const value = status === null ? null : { slot: 4, confirmations: null, ...status };
    const results = { getSignatureStatuses: { context: { slot: 5 }, value: [value] }, getBlockHeight: 1 };
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket) =>
    socket.on('message', (text) => {
      const { id, method } = JSON.parse(text);
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, result: method === 'signatureSubscribe' ? 7 : true }));
      if (method !== 'signatureSubscribe') return;
      const params = { subscription: 7, result: { context: { slot: 40 }, value: { err: final } } };
      setTimeout(() => socket.send(JSON.stringify({ jsonrpc: '2.0', method: 'signatureNotification', params })), 500);
    }),
  );
  const place = `127.0.0.1:${server.address().port}`;
  const connection = new Connection(`http://${place}`, { commitment: 'finalized', wsEndpoint: `ws://${place}` });
  const strategy = { signature: SIGNATURE, blockhash: BLOCKHASH, lastValidBlockHeight: 150 };
  const result = await connection.confirmTransaction(strategy, 'finalized').then(
    ({ value }) => `returns ${JSON.stringify(value.err)}`,
    (error) => `throws ${error instanceof Error ? 'an Error' : JSON.stringify(error)}`,
  );
  connection._rpcWebSocket.reconnect = false;
  connection._rpcWebSocket.close();
  sockets.close();
  server.close();
  return { name, result };
}

(async () => {
  const rows = [
    await outcome('succeeded at processed, final: success', { err: null, confirmationStatus: 'processed' }, null),
    await outcome('failed at processed, final: success', { err: FAILURE, confirmationStatus: 'processed' }, null),
    await outcome('no status yet, final: failure', null, FAILURE),
  ];
  console.log('@solana/web3.js 1.99.0, confirmTransaction with finalized');
  console.table(rows);
  const failure = JSON.stringify(FAILURE);
  const expected = ['returns null', `throws ${failure}`, `returns ${failure}`];
  const results = rows.map(({ result }) => result);
  if (results.join() !== expected.join()) {
    console.error(`CHANGED: ${results}`);
    process.exit(1);
  }
  process.exit(0);
})();
JS
node run.cjs
