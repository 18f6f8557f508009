/** G1a and G1b: from the bytes of a block answer to matched transactions. */
import assert from 'node:assert/strict';
import { VersionedTransaction } from '@solana/web3.js';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { type AddressIndex, matchBlock } from '../../../src/solana/address-set.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import { readFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { type Candidate, paired, ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { syntheticBlock } from '../samples/synthetic-block.ts';
import { indexOf, keyOf, type Watched, watchedAddresses } from '../samples/watched.ts';

interface Subject {
  readonly name: string;
  readonly body: Buffer;
  readonly slot: number;
}

/** What the baselines read of a block. */
interface RpcBlock {
  readonly transactions: readonly {
    readonly transaction: readonly [string, string];
    readonly meta: {
      readonly loadedAddresses?: { readonly writable: readonly string[]; readonly readonly: readonly string[] };
      readonly preTokenBalances?: readonly { readonly owner?: string }[];
      readonly postTokenBalances?: readonly { readonly owner?: string }[];
    };
  }[];
}

const RECORDED = 'chain/blocks/mainnet-254170887-even.json';

/** A recorded block in the answer that it came in. */
function answerOf(block: Buffer): Buffer {
  return Buffer.concat([Buffer.from('{"jsonrpc":"2.0","result":'), block, Buffer.from(',"id":1}')]);
}

function subjects({ size, seed }: RunOptions): Subject[] {
  const transactions = size === 'smoke' ? 40 : 1500;
  const { body, slot } = syntheticBlock({ seed, transactions, slot: 1000 });
  const synthetic: Subject = { name: 'synthetic', body, slot };
  if (skipWithoutFixtures !== false) return [synthetic];
  return [synthetic, { name: 'recorded', body: answerOf(readFixture(RECORDED)), slot: 254170887 }];
}

/** Random addresses, with every 40th key of each block in their place, so that there are hits. */
function addressesFor(list: readonly Subject[], { size, seed }: RunOptions): Watched {
  const watched = watchedAddresses(seed + 1, size === 'smoke' ? 2_000 : 1_000_000);
  let at = 0;
  for (const subject of list) {
    const { keys } = decodeAnswer(subject);
    for (let id = 0; id < keys.size; id += 40) watched.keys.set(keys.bytes(id), 32 * at++);
  }
  return watched;
}

function decodeAnswer({ body, slot }: Subject): ChainBlock {
  const scanned = scanBlockAnswer(body);
  assert.ok(scanned !== null, 'the answer is not of the usual form');
  return decodeBlock(slot, scanned);
}

/** `meta` of which transactions is read: what is not read is checked, but not parsed. */
type Reading = 'none' | 'matched' | 'all';

function ours(subject: Subject, index: AddressIndex, reading: Reading = 'none'): number[] {
  const block = decodeAnswer(subject);
  const found = matchBlock(block, index, { owners: true }).map((match) => match.index);
  let fees = 0;
  if (reading === 'all') for (const tx of block.transactions) fees += Number(tx.fee);
  if (reading === 'matched') for (const at of found) fees += Number(block.transactions[at]!.fee);
  assert.ok(fees >= 0);
  return found;
}

/** The same answer through web3.js and strings. */
function throughStrings(subject: Subject, watched: ReadonlyMap<string, readonly number[]>): number[] {
  const { result: block } = JSON.parse(subject.body.toString()) as { result: RpcBlock };
  const touched = new Map<string, number[]>();
  block.transactions.forEach(({ transaction, meta }, at) => {
    const { message } = VersionedTransaction.deserialize(Buffer.from(transaction[0], 'base64'));
    const texts = message.staticAccountKeys.map((key) => key.toBase58());
    texts.push(...(meta.loadedAddresses?.writable ?? []), ...(meta.loadedAddresses?.readonly ?? []));
    for (const { owner } of [...(meta.preTokenBalances ?? []), ...(meta.postTokenBalances ?? [])])
      if (owner !== undefined) texts.push(owner);
    for (const text of texts) {
      const list = touched.get(text);
      if (list === undefined) touched.set(text, [at]);
      else if (list.at(-1) !== at) list.push(at);
    }
  });
  const matched = new Set<number>();
  for (const [text, list] of touched) if (watched.has(text)) for (const at of list) matched.add(at);
  return [...matched].sort((left, right) => left - right);
}

function mapOf(watched: Watched): Map<string, readonly number[]> {
  const map = new Map<string, readonly number[]>();
  for (let at = 0; at < watched.count; at++) map.set(encode32(keyOf(watched, at)), watched.owners[at]!);
  return map;
}

function timing({ size }: RunOptions): { pairs: number; minMs: number } {
  return size === 'smoke' ? { pairs: 2, minMs: 1 } : { pairs: 10, minMs: 500 };
}

type Shared = Pick<RowResult, 'unit' | 'seed' | 'sizes'>;

function sharedOf(subject: Subject, watched: Watched, matched: number, { seed }: RunOptions): Shared {
  return { unit: 'ms/block', seed, sizes: { bytes: subject.body.length, addresses: watched.count, matched } };
}

async function run(options: RunOptions): Promise<RowResult[]> {
  const list = subjects(options);
  const watched = addressesFor(list, options);
  options.say(`${watched.count} addresses`);
  const index = indexOf(watched, options.seed + 2);
  const notes = list.length === 1 ? ['no recorded block here: PARHELION_FIXTURES'] : [];
  const isAssessed = options.size !== 'smoke' && list.length === 2;
  const verdictOf = (isMet: boolean): RowResult['verdict'] => (!isAssessed ? 'not assessed' : isMet ? 'met' : 'missed');
  // The large Map of the second comparison would burden the garbage collector in the first.
  const againstParse = list.map((subject): RowResult => {
    options.say(`${subject.name} block against its parse alone`);
    const matched = ours(subject, index).length;
    const parse = { run: () => Object.keys(JSON.parse(subject.body.toString()) as object).length };
    const timed = paired({ run: () => ours(subject, index).length }, parse, timing(options));
    const { oursMs, baselineMs, sink } = timed;
    const ratio = ratioOf(oursMs, baselineMs);
    return {
      ...sharedOf(subject, watched, matched, options),
      row: `G1a/${subject.name}`,
      name: 'ingest vs parse alone',
      ours: oursMs,
      baseline: baselineMs,
      ratio,
      goal: '<= 1.5x the time',
      verdict: verdictOf(ratio.median <= 1.5),
      notes: [
        ...notes,
        cpuNote(timed.oursCpuMs, timed.baselineCpuMs),
        ...readingNotes(subject, index, parse, options),
        `sink ${sink}`,
      ],
    };
  });
  return [...againstParse, ...againstStrings(list, watched, index, options, { notes, verdictOf })];
}

function cpuNote(above: readonly number[], below: readonly number[]): string {
  return `ratio in CPU time ${ratioOf(above, below).median.toFixed(2)}`;
}

/** What it costs when `meta` is read as well. */
function readingNotes(subject: Subject, index: AddressIndex, parse: Candidate, options: RunOptions): string[] {
  const few = { ...timing(options), pairs: Math.min(4, timing(options).pairs) };
  return (['matched', 'all'] as const).map((reading) => {
    const { oursCpuMs, baselineCpuMs } = paired({ run: () => ours(subject, index, reading).length }, parse, few);
    return `${cpuNote(oursCpuMs, baselineCpuMs)} when the meta of ${reading} transactions is read, too`;
  });
}

function againstStrings(
  list: readonly Subject[],
  watched: Watched,
  index: AddressIndex,
  options: RunOptions,
  { notes, verdictOf }: { notes: readonly string[]; verdictOf: (isMet: boolean) => RowResult['verdict'] },
): RowResult[] {
  const strings = mapOf(watched);
  return list.map((subject) => {
    options.say(`${subject.name} block against web3.js`);
    const matched = ours(subject, index);
    assert.ok(matched.length > 0, 'nothing matched');
    assert.deepEqual(matched, throughStrings(subject, strings));
    const theirs = { run: () => throughStrings(subject, strings).length };
    const timed = paired({ run: () => ours(subject, index).length }, theirs, timing(options));
    const { oursMs, baselineMs, sink } = timed;
    const ratio = ratioOf(baselineMs, oursMs);
    return {
      ...sharedOf(subject, watched, matched.length, options),
      row: `G1b/${subject.name}`,
      name: 'ingest vs web3.js',
      ours: oursMs,
      baseline: baselineMs,
      ratio,
      goal: '>= 8x faster',
      verdict: verdictOf(ratio.median >= 8),
      notes: [...notes, cpuNote(timed.baselineCpuMs, timed.oursCpuMs), `sink ${sink}`],
    };
  });
}

export const ingestRow: Row = { id: 'G1', name: 'ingest of one block', run };
