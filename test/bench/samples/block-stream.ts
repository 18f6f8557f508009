/**
 * A stand-in for a node with an endless chain of busy blocks, as fast as they are asked for: `block-stream.ts TRANSACTIONS SEED`. `GET
 * /tip?slot=N` moves the tip; other calls are JSON-RPC.
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { encode32 } from '../../../src/lib/base58.ts';
import { CACHED, transactionText } from './proxy-answers.ts';
import { syntheticBlock } from './synthetic-block.ts';

const VARIANTS = 4;
const [transactions = '1500', seed = '1'] = process.argv.slice(2);
const bodies = Array.from({ length: VARIANTS }, (_, n) => {
  const { body } = syntheticBlock({ seed: Number(seed) + n, transactions: Number(transactions), slot: 1 });
  return body.subarray(body.indexOf('"transactions":'), body.lastIndexOf('},"id":1}'));
});
const hashOf = (slot: number) => encode32(createHash('sha256').update(String(slot)).digest());
let tip = 1_000;

function blockOf(id: unknown, slot: number): Buffer {
  const head =
    `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"blockHeight":${slot},"blockTime":1700000000,` +
    `"blockhash":"${hashOf(slot)}","parentSlot":${slot - 1},"previousBlockhash":"${hashOf(slot - 1)}",`;
  return Buffer.concat([Buffer.from(head), bodies[slot % VARIANTS]!, Buffer.from('}}')]);
}

function answer(text: string): Buffer | string {
  if (text === CACHED) return transactionText();
  const { id, method, params = [] } = JSON.parse(text) as { id: unknown; method: string; params?: number[] };
  const reply = (result: unknown) => JSON.stringify({ jsonrpc: '2.0', id, result });
  if (method === 'getGenesisHash') return reply('11111111111111111111111111111112');
  if (method === 'getFirstAvailableBlock') return reply(0);
  if (method === 'getBlocks') {
    const [from = 0, to = tip] = params;
    const count = Math.max(0, Math.min(to, tip) - from + 1);
    return reply(Array.from({ length: count }, (_, n) => from + n));
  }
  if (method === 'getBlock') {
    const [slot = 0] = params;
    if (slot > tip) return JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32004, message: 'not yet' } });
    return blockOf(id, slot);
  }
  return reply(tip);
}

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://x');
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    if (pathname === '/tip') {
      tip = Number(searchParams.get('slot'));
      response.end();
      return;
    }
    const body = answer(Buffer.concat(chunks).toString() || '{}');
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
    response.end(body);
  });
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
process.once('disconnect', () => process.exit(0));
process.send?.({ port: (server.address() as AddressInfo).port });
