#!/usr/bin/env bash
# @solana/kit 8.4.0: `decimals` and `uiAmount` of one token amount are numbers in one place of an answer and bigints
# in another.
#
# Expected: kit makes bigints of integers and keeps a list of members that stay numbers; a token amount has one type,
#   wherever it stands.
# Happens: with jsonParsed, `decimals` is a number in the token balances of the metadata and in parsed accounts, and a
#   bigint in the `tokenAmount` of a parsed instruction of the same transaction, top level or inner. `uiAmount`, a
#   double, has a type by its value there: 0.5 is a number, 5.0 a bigint.
# Hurts: code that shares a function between balances and instructions. `10 ** decimals` throws "Cannot mix BigInt and
#   other types" for transfers only; JSON.stringify throws; a comparison with === is false. Sums of `uiAmount` break
#   as soon as one transfer is whole.
# Instead: Number(decimals) at every read; BigInt(amount) or uiAmountString instead of uiAmount.
#
# Needs node 20.18 or newer and npm.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --no-audit --no-fund --ignore-scripts --silent @solana/kit@8.4.0 >&2

cat > run.mjs <<'JS'
import { createServer } from 'node:http';
import { createSolanaRpc } from '@solana/kit';

const KEY = '11111111111111111111111111111111';
// Numbers are text here as a node writes them: serde's doubles.
const tokenAmount = ({ raw, decimals, ui }) => `{"amount":"${raw}","decimals":${decimals},"uiAmount":${ui},"uiAmountString":"${raw}"}`;
const balance = (amount) => `{"accountIndex":0,"mint":"${KEY}","owner":"${KEY}","programId":"${KEY}","uiTokenAmount":${tokenAmount(amount)}}`;
const instruction = (amount) =>
  `{"program":"spl-token","programId":"${KEY}","stackHeight":2,"parsed":{"type":"transferChecked","info":{"tokenAmount":${tokenAmount(amount)}}}}`;
const transaction = (amount) => `{"slot":1,"blockTime":1,"version":0,
  "meta":{"err":null,"status":{"Ok":null},"fee":5000,"preBalances":[1],"postBalances":[1],"logMessages":[],"rewards":[],"computeUnitsConsumed":1,
    "preTokenBalances":[${balance(amount)}],"postTokenBalances":[${balance(amount)}],
    "innerInstructions":[{"index":0,"instructions":[${instruction(amount)}]}]},
  "transaction":{"signatures":["${KEY}"],"message":{"accountKeys":[],"recentBlockhash":"${KEY}","instructions":[${instruction(amount)}]}}}`;

let result;
const server = createServer((request, response) => {
  let body = '';
  request.on('data', (chunk) => (body += chunk));
  request.on('end', () => response.end(`{"jsonrpc":"2.0","id":"${JSON.parse(body).id}","result":${result}}`));
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const rpc = createSolanaRpc(`http://127.0.0.1:${server.address().port}`);

console.log('@solana/kit 8.4.0, getTransaction with jsonParsed: types of decimals and uiAmount');
const found = [];
for (const amount of [
  { raw: '500000', decimals: 6, ui: '0.5' },
  { raw: '5000000', decimals: 6, ui: '5.0' },
]) {
  result = transaction(amount);
  const { meta, transaction: sent } = await rpc.getTransaction('5'.repeat(88), { encoding: 'jsonParsed', maxSupportedTransactionVersion: 0 }).send();
  const places = {
    'token balance': meta.postTokenBalances[0].uiTokenAmount,
    instruction: sent.message.instructions[0].parsed.info.tokenAmount,
    'inner instruction': meta.innerInstructions[0].instructions[0].parsed.info.tokenAmount,
  };
  for (const [place, read] of Object.entries(places)) {
    const types = `${typeof read.decimals}, ${typeof read.uiAmount}`;
    console.log(`  uiAmount ${amount.ui}, ${place}: ${types}`);
    found.push(types);
  }
}
server.close();
const expected = ['number, number', 'bigint, number', 'bigint, number', 'number, number', 'bigint, bigint', 'bigint, bigint'];
if (found.join('; ') !== expected.join('; ')) {
  console.error('CHANGED');
  process.exit(1);
}
JS
node run.mjs
