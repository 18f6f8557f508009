#!/usr/bin/env bash
# @anchor-lang/core 1.2.0: EventParser throws on the logs of a transaction that was cut in the middle.
#
# Expected: a node keeps about 10,000 bytes of logs per transaction and ends them with "Log truncated"; a parser
#   returns the events before that line.
# Happens: "Log truncated" is not always the last line. Each later line that still fits is kept, so a short "success"
#   can stand there while the longer "invoke" of the same call is missing. EventParser keeps a stack of calls; it pops
#   an empty stack and throws "Expected the stack to have elements". The cut needs no odd program: memos and two plain
#   transfers do it here, in the real runtime. About 1 length of the logs in 50 hits the gap, if a transfer (a tip,
#   for instance) follows the noisy program.
# Hurts: indexers that loop over parseLogs. One transaction of somebody else stops the loop, and events after the
#   throw, of this transaction or of the batch, are lost.
# Instead: catch per transaction; after "Log truncated" trust no call stack. Emit events by CPI (emit_cpi!) and read
#   them from the inner instructions, which are never cut.
#
# Needs node 20.18 or newer and npm.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --no-audit --no-fund --ignore-scripts --silent \
  @anchor-lang/core@1.2.0 @solana/web3.js@1.99.0 litesvm@1.5.0 @solana/kit@8.4.0 @solana-program/system@0.14.1 >&2

cat > run.mjs <<'JS'
import anchor from '@anchor-lang/core';
import { getTransferSolInstruction } from '@solana-program/system';
import * as kit from '@solana/kit';
import web3 from '@solana/web3.js';
import { LiteSVM } from 'litesvm';

const MEMO = kit.address('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
const EMPTY_STACK = 'Expected the stack to have elements';

const svm = new LiteSVM();
const payer = await kit.createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(7));
svm.airdrop(payer.address, kit.lamports(10n ** 10n));

const memo = (length) => ({ programAddress: MEMO, accounts: [], data: new Uint8Array(length).fill(97) });
const transfer = (amount) => getTransferSolInstruction({ source: payer, destination: payer.address, amount });

async function logsOf(lastMemo) {
  svm.expireBlockhash();
  const instructions = [...Array(38).fill(memo(1)), memo(lastMemo), transfer(1n), transfer(2n)];
  const message = kit.pipe(
    kit.createTransactionMessage({ version: 0 }),
    (m) => kit.setTransactionMessageFeePayerSigner(payer, m),
    (m) => svm.setTransactionMessageLifetimeUsingLatestBlockhash(m),
    (m) => kit.appendTransactionMessageInstructions(instructions, m),
  );
  const result = svm.sendTransaction(await kit.signTransactionMessageWithSigners(message));
  if ('err' in result) throw new Error(`the transaction failed: ${result.toString()}`);
  return result.logs();
}

// Any Anchor program will do: none of its events are in these logs.
const idl = {
  address: payer.address,
  metadata: { name: 'some_program', version: '0.1.0', spec: '0.1.0' },
  instructions: [],
  events: [{ name: 'Sold', discriminator: [1, 2, 3, 4, 5, 6, 7, 8] }],
  types: [{ name: 'Sold', type: { kind: 'struct', fields: [{ name: 'price', type: 'u64' }] } }],
};
const parser = new anchor.EventParser(new web3.PublicKey(payer.address), new anchor.BorshCoder(idl));

let thrown = 0;
let tried = 0;
let shown;
for (let length = 1; length <= 250; length++) {
  const logs = await logsOf(length);
  tried++;
  try {
    [...parser.parseLogs(logs)];
  } catch (error) {
    if (error.message !== EMPTY_STACK) throw error;
    thrown++;
    shown ??= logs;
  }
}
console.log('@anchor-lang/core 1.2.0, logs of litesvm 1.5.0');
console.log(`transactions that succeeded: ${tried}; parseLogs threw for ${thrown}: "${EMPTY_STACK}"`);
console.log('last lines of the first such logs:');
for (const line of shown?.slice(-4) ?? []) console.log(`  ${line}`);
const cutBeforeEnd = shown !== undefined && shown.indexOf('Log truncated') < shown.length - 1;
if (thrown === 0 || !cutBeforeEnd) {
  console.error('CHANGED: the parser reads these logs, or they are cut in another way');
  process.exit(1);
}
JS
node run.mjs
