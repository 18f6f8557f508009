#!/usr/bin/env bash
# @x402/svm 2.27.0 with litesvm 1.5.0: a payment with an order id of 64 characters as its memo succeeds in the test
# engine and can never succeed on a node.
#
# Expected: the client refuses memos of more than 256 bytes, so the shorter ones are paid; and a test engine that brings
#   the programs of the chain shows whether they are.
# Happens: the client gives each payment 20,000 compute units, whatever its memo. The Memo program of the chain takes
#   about 350 units for a byte: on Agave 4.4.0 50 bytes fit and 64 do not, in solana-bankrun 0.4.0, whose transfer of
#   tokens takes more, fewer still. LiteSVM has another program at the same address, which takes about 290 units for
#   64 bytes and writes no "Memo (len 64)" into the log: there, all of them succeed.
# Hurts: a seller whose order ids are UUIDs with a prefix and whose tests run in LiteSVM. On the chain each of their
#   payments fails, the facilitator says "exceeded CUs meter", and nothing names the memo.
# Instead: memos of at most 40 bytes, and a test of one whole payment on solana-test-validator or solana-bankrun.
#
# Needs node 20.18 or newer with npm, on Linux or macOS.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private": true, "type": "module"}' > package.json
npm install --silent --no-audit --no-fund @x402/core@2.27.0 @x402/svm@2.27.0 @solana/kit@5.1.0 @solana/web3.js@1.98.4 \
  litesvm@1.5.0 solana-bankrun@0.4.0
cat > run.mjs <<'JS'
import { once } from 'node:events';
import { createServer } from 'node:http';
import {
  createKeyPairSignerFromBytes,
  getBase64Encoder,
  getTransactionDecoder,
  getTransactionEncoder,
  partiallySignTransaction,
} from '@solana/kit';
import web3 from '@solana/web3.js';
import { ExactSvmScheme } from '@x402/svm/exact/client';
import { FailedTransactionMetadata, LiteSVM } from 'litesvm';
import { start } from 'solana-bankrun';

const { Keypair, PublicKey, VersionedTransaction } = web3;
const MINT = new PublicKey('4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU');
const TOKEN = new PublicKey('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA');
const ASSOCIATED = new PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
const DEVNET = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1';
const [facilitator, buyer, seller] = [1, 2, 3].map((byte) => Keypair.fromSeed(new Uint8Array(32).fill(byte)));

// Six decimals; buyer and seller have a dollar each, the facilitator has lamports.
const mint = Buffer.alloc(82);
mint.set([6, 1], 44);
const dollarOf = ({ publicKey }) => {
  const data = Buffer.alloc(165);
  data.set(MINT.toBytes(), 0);
  data.set(publicKey.toBytes(), 32);
  data.writeBigUInt64LE(1_000_000n, 64);
  data[108] = 1;
  const [address] = PublicKey.findProgramAddressSync([publicKey, TOKEN, MINT].map((key) => key.toBytes()), ASSOCIATED);
  return { address, owner: TOKEN, data };
};
const accounts = [
  { address: MINT, owner: TOKEN, data: mint },
  dollarOf(buyer),
  dollarOf(seller),
  { address: facilitator.publicKey, owner: PublicKey.default, data: Buffer.alloc(0) },
];
const LAMPORTS = 1_000_000_000;

const bank = await start(
  [],
  accounts.map(({ address, ...info }) => ({ address, info: { ...info, lamports: LAMPORTS, executable: false } })),
);
const svm = new LiteSVM();
for (const { address, owner, data } of accounts)
  svm.setAccount({
    address: address.toBase58(),
    programAddress: owner.toBase58(),
    data,
    space: BigInt(data.length),
    lamports: BigInt(LAMPORTS),
    executable: false,
    exists: true,
  });

// All that the client asks of a node: the mint, and a blockhash.
let blockhash = '';
const node = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const { id, method } = JSON.parse(Buffer.concat(parts).toString());
  const account = { data: [mint.toString('base64'), 'base64'], owner: TOKEN.toBase58(), lamports: LAMPORTS };
  const value =
    method === 'getAccountInfo'
      ? { ...account, executable: false, rentEpoch: 0, space: mint.length }
      : { blockhash, lastValidBlockHeight: 150 };
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { context: { slot: 1 }, value } }));
}).listen(0, '127.0.0.1');
await once(node, 'listening');
const rpcUrl = `http://127.0.0.1:${node.address().port}`;
const client = new ExactSvmScheme(await createKeyPairSignerFromBytes(buyer.secretKey), { rpcUrl });
const { keyPair } = await createKeyPairSignerFromBytes(facilitator.secretKey);

/** What the client pays for an offer with such a memo, signed by the facilitator too. */
async function payment(bytes, recent) {
  blockhash = recent;
  const { payload } = await client.createPaymentPayload(2, {
    scheme: 'exact',
    network: DEVNET,
    asset: MINT.toBase58(),
    payTo: seller.publicKey.toBase58(),
    amount: '1000',
    maxTimeoutSeconds: 60,
    extra: { feePayer: facilitator.publicKey.toBase58(), memo: 'x'.repeat(bytes) },
  });
  const half = getTransactionDecoder().decode(getBase64Encoder().encode(payload.transaction));
  return await partiallySignTransaction([keyPair], half);
}

const rows = [];
for (const bytes of [32, 64, 256]) {
  const lite = svm.sendTransaction(await payment(bytes, svm.latestBlockhash()));
  const isPaid = !(lite instanceof FailedTransactionMetadata);
  const wire = new Uint8Array(getTransactionEncoder().encode(await payment(bytes, bank.lastBlockhash)));
  const { result, meta } = await bank.banksClient.tryProcessTransaction(VersionedTransaction.deserialize(wire));
  rows.push({ bytes, lite: isPaid, bank: result === null });
  const units = (isPaid ? lite : lite.meta()).computeUnitsConsumed();
  console.log(`memo of ${bytes} bytes: litesvm ${isPaid ? 'paid' : 'failed'} (${units} units), solana-bankrun ${
    result === null ? 'paid' : 'failed'} (${meta.computeUnitsConsumed} units: ${meta.logMessages.at(-1)})`);
}
node.close();
const told = rows.map(({ lite, bank }) => [lite, bank]).join(' ');
process.exit(told === 'true,true true,false true,false' ? 0 : 1);
JS
echo "@x402/svm $(node -p "require('./node_modules/@x402/svm/package.json').version"), litesvm $(node -p "require('./node_modules/litesvm/package.json').version"), solana-bankrun $(node -p "require('./node_modules/solana-bankrun/package.json').version")"
if RUST_LOG=off node run.mjs; then
  echo 'as described: what litesvm pays fails with the Memo program of the chain'
else
  echo CHANGED
  exit 1
fi
