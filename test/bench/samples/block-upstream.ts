/**
 * A node that has as many full blocks as it is asked to have, each a link of one chain: a few made-up blocks in turns, every time with
 * other signatures. Without templates each has transactions of compressed accounts that go on where the block before ended.
 * Arguments: seed, templates, transactions, first slot, blocks, port (0: any), pause between two blocks in ms (0: all are there from the
 * beginning; otherwise `slotSubscribe` announces each).
 *
 * It also receives raw webhooks at `/hook`. `GET /waits` returns how long each delivery took from the last byte of its block's response, in
 * ms, and clears the list.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';
import { encode32 } from '../../../src/lib/base58.ts';
import { createCompressionBlocks } from './compression-blocks.ts';
import { syntheticBlock, VERSION_1_SHARE } from './synthetic-block.ts';

interface Template {
  /** From the first bracket of the transactions to the last. */
  readonly text: Buffer;
  /** Where eight characters stand that belong to a signature. */
  readonly places: readonly number[];
}

const WIRE = '"transaction":["';
/** Behind the bytes that hold the number of signatures. */
const OFFSET = WIRE.length + 4;
/** Version 1 ends with the signature: 64 bytes are 85 characters. */
const FROM_END = 40;
const VERSION_1 = 'gQ';

function templateOf(seed: number, transactions: number): Template {
  const { body } = syntheticBlock({ seed, transactions, slot: 1, version1Share: VERSION_1_SHARE });
  const text = Buffer.from(body.subarray(body.indexOf('"transactions":') + 15, body.lastIndexOf(']') + 1));
  const places: number[] = [];
  for (let at = text.indexOf(WIRE); at >= 0; at = text.indexOf(WIRE, at + 1)) {
    const from = at + WIRE.length;
    const isVersion1 = text.toString('latin1', from, from + VERSION_1.length) === VERSION_1;
    places.push(isVersion1 ? text.indexOf('"', from) - FROM_END : at + OFFSET);
  }
  return { text, places };
}

function hashOf(slot: number): string {
  const bytes = Buffer.alloc(32, 7);
  bytes.writeUInt32BE(slot, 4);
  return encode32(bytes);
}

const [seed = 1, templateCount = 1, transactions = 1, first = 1, count = 1, port = 0, blockMs = 0] = process.argv
  .slice(2)
  .map(Number);
const end = first + count - 1;
const startedMs = performance.now();
const lastSlot = (): number =>
  blockMs === 0 ? end : Math.min(end, first + Math.floor((performance.now() - startedMs) / blockMs));
/** When the answer with a block was sent first, by slot. */
const sentMs = new Map<number, number>();
let waitsMs: number[] = [];
const templates = Array.from({ length: templateCount }, (_, at) => templateOf(seed + at, transactions));
const nextBlock = createCompressionBlocks(seed);
/** Made before the first is asked for: others are measured beside. */
const texts = Array.from({ length: templateCount === 0 ? count : 0 }, () => Buffer.from(JSON.stringify(nextBlock())));

function header(slot: number): string {
  const times = `"blockHeight":${slot},"blockTime":${1_700_000_000 + slot}`;
  const own = `"blockhash":"${hashOf(slot)}","parentSlot":${slot - 1},"previousBlockhash":"${hashOf(slot - 1)}"`;
  return `${times},${own}`;
}

function block(slot: number, id: string): Buffer {
  const { text, places } = templates[slot % templateCount] ?? { text: texts[slot - first]!, places: [] };
  const start = Buffer.from(`{"jsonrpc":"2.0","result":{${header(slot)},"transactions":`);
  const answer = Buffer.concat([start, text, Buffer.from(`},"id":${id}}`)]);
  const mark = slot.toString(36).padStart(8, 'A');
  for (const place of places) answer.write(mark, start.length + place, 'latin1');
  return answer;
}

function answer(body: string): Buffer {
  const { id, method, params } = JSON.parse(body) as { id: unknown; method: string; params?: unknown[] };
  const idText = JSON.stringify(id ?? null);
  const reply = (result: string) => Buffer.from(`{"jsonrpc":"2.0","result":${result},"id":${idText}}`);
  const last = lastSlot();
  const from = Math.max(Number(params?.[0]), first);
  if (method === 'getBlock') {
    const { transactionDetails } = (params?.[1] ?? {}) as { transactionDetails?: string };
    if (from > last) return reply('null');
    return transactionDetails === 'none' ? reply(`{${header(from)}}`) : block(from, idText);
  }
  if (method === 'getBlocks') {
    const to = Math.min(Number(params?.[1]), last);
    return reply(JSON.stringify(Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at)));
  }
  const value = (empty: string) => `{"context":{"slot":${last}},"value":${empty}}`;
  const others: Readonly<Record<string, string>> = {
    // Of wallets: nothing happened before the first block.
    getSignaturesForAddress: '[]',
    getTokenAccountsByOwner: value('[]'),
    getSlot: String(last),
    getHealth: '"ok"',
    getVersion: '{"solana-core":"3.0.0"}',
    getFirstAvailableBlock: String(first),
    getGenesisHash: `"${hashOf(0)}"`,
  };
  const known = others[method];
  if (known !== undefined) return reply(known);
  return Buffer.from(`{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":${idText}}`);
}

const server = createServer((request, response) => {
  if (request.method === 'GET' && request.url === '/waits') {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(waitsMs));
    waitsMs = [];
    return;
  }
  // Websockets are asked for by GET.
  if (request.method !== 'POST') return void response.writeHead(404).end();
  const arrivedMs = performance.now();
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString();
    if (request.url === '/hook') {
      response.writeHead(200, { 'content-length': 0 }).end();
      for (const { slot } of JSON.parse(body) as { slot: number }[])
        waitsMs.push(arrivedMs - (sentMs.get(slot) ?? Number.NaN));
      return;
    }
    const bytes = answer(body);
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length });
    const { method, params } = JSON.parse(body) as { method: string; params?: unknown[] };
    response.end(bytes, () => {
      const slot = Number(params?.[0]);
      if (method === 'getBlock' && slot <= lastSlot() && !sentMs.has(slot)) sentMs.set(slot, performance.now());
    });
  });
});
if (blockMs > 0) {
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket) => socket.on('message', () => socket.send('{"jsonrpc":"2.0","result":1,"id":1}')));
  let announced = first;
  setInterval(() => {
    const slot = lastSlot();
    if (slot === announced) return;
    announced = slot;
    const result = `{"parent":${slot - 1},"root":${slot - 32},"slot":${slot}}`;
    const notice = `{"jsonrpc":"2.0","method":"slotNotification","params":{"result":${result},"subscription":1}}`;
    for (const socket of sockets.clients) socket.send(notice);
  }, 5).unref();
}
server.listen(port, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.once('disconnect', () => process.exit(0));
