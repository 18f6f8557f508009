/** G1a and G1b: from the bytes of a block answer to matched transactions. */
import assert from 'node:assert/strict';
import { VersionedTransaction } from '@solana/web3.js';
import { encode32 } from '../../../src/lib/base58.ts';
import type { AddressIndex } from '../../../src/solana/address-set.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { decodeResponse } from '../../../src/solana/decode/decode-response.ts';
import { matchBlock } from '../../../src/solana/match-block.ts';
import { readFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { syntheticBlock } from '../samples/synthetic-block.ts';
import { indexOf, keyOf, type Watched, watchedAddresses } from '../samples/watched.ts';
import { paired, ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';

interface Subject {
  readonly name: string;
  readonly body: Buffer;
  readonly slot: number;
  readonly resultOf: (answer: unknown) => unknown;
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

function subjects({ size, seed }: RunOptions): Subject[] {
  const transactions = size === 'smoke' ? 40 : 1500;
  const { body, slot } = syntheticBlock({ seed, transactions, slot: 1000 });
  const resultOf = (answer: unknown): unknown => (answer as { result: unknown }).result;
  const synthetic: Subject = { name: 'synthetic', body, slot, resultOf };
  if (skipWithoutFixtures !== false) return [synthetic];
  const recorded = {
    name: 'recorded',
    body: readFixture(RECORDED),
    slot: 254170887,
    resultOf: (block: unknown) => block,
  };
  return [synthetic, recorded];
}

/** Random addresses, with every 40th key of each block in their place, so that there are hits. */
function addressesFor(list: readonly Subject[], { size, seed }: RunOptions): Watched {
  const watched = watchedAddresses(seed + 1, size === 'smoke' ? 2_000 : 1_000_000);
  let at = 0;
  for (const subject of list) {
    const { keys } = decodeBlock(subject.slot, subject.resultOf(decodeResponse(subject.body)));
    for (let id = 0; id < keys.size; id += 40) watched.keys.set(keys.bytes(id), 32 * at++);
  }
  return watched;
}

function ours(subject: Subject, index: AddressIndex): number[] {
  const block = decodeBlock(subject.slot, subject.resultOf(decodeResponse(subject.body)));
  return matchBlock(block, index, { owners: true }).map((match) => match.index);
}

/** The same answer through web3.js and strings. */
function throughStrings(subject: Subject, watched: ReadonlyMap<string, readonly number[]>): number[] {
  const block = subject.resultOf(JSON.parse(subject.body.toString())) as RpcBlock;
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

function measure(
  subject: Subject,
  index: AddressIndex,
  strings: ReadonlyMap<string, readonly number[]>,
  options: RunOptions,
) {
  const matched = ours(subject, index);
  assert.ok(matched.length > 0, 'nothing matched');
  assert.deepEqual(matched, throughStrings(subject, strings));
  const isSmoke = options.size === 'smoke';
  const timing = isSmoke ? { pairs: 2, minMs: 1 } : { pairs: 10, minMs: 500 };
  const mine = { run: () => ours(subject, index).length };
  const parse = paired(mine, { run: () => Object.keys(JSON.parse(subject.body.toString()) as object).length }, timing);
  const web3 = paired(mine, { run: () => throughStrings(subject, strings).length }, timing);
  return { matched: matched.length, parse, web3 };
}

async function run(options: RunOptions): Promise<RowResult[]> {
  const list = subjects(options);
  const watched = addressesFor(list, options);
  options.say(`${watched.count} addresses`);
  const index = indexOf(watched, options.seed + 2);
  const strings = mapOf(watched);
  const notes = list.length === 1 ? ['no recorded block here: PARHELION_FIXTURES'] : [];
  const isAssessed = options.size !== 'smoke' && list.length === 2;
  return list.flatMap((subject) => {
    options.say(`${subject.name} block`);
    const { matched, parse, web3 } = measure(subject, index, strings, options);
    const shared = {
      unit: 'ms/block',
      seed: options.seed,
      sizes: { bytes: subject.body.length, addresses: watched.count, matched },
    };
    const slower = ratioOf(parse.oursMs, parse.baselineMs);
    const faster = ratioOf(web3.baselineMs, web3.oursMs);
    return [
      {
        ...shared,
        row: `G1a/${subject.name}`,
        name: 'ingest vs parse alone',
        ours: parse.oursMs,
        baseline: parse.baselineMs,
        ratio: slower,
        goal: '<= 1.5x the time',
        verdict: !isAssessed ? 'not assessed' : slower.median <= 1.5 ? 'met' : 'missed',
        notes: [...notes, `sink ${parse.sink}`],
      },
      {
        ...shared,
        row: `G1b/${subject.name}`,
        name: 'ingest vs web3.js',
        ours: web3.oursMs,
        baseline: web3.baselineMs,
        ratio: faster,
        goal: '>= 8x faster',
        verdict: !isAssessed ? 'not assessed' : faster.median >= 8 ? 'met' : 'missed',
        notes: [...notes, `sink ${web3.sink}`],
      },
    ] satisfies RowResult[];
  });
}

export const ingestRow: Row = { id: 'G1', name: 'ingest of one block', run };
