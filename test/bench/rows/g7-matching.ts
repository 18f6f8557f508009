/** G7a: look-ups of watched addresses. G7b: what an address costs in memory. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { encode32 } from '../../../src/lib/base58.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { paired, ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { indexOf, keyOf, watchedAddresses } from '../samples/watched.ts';
import { siblingModule } from '../sibling.ts';

/** Questions: half hits, half misses, in random order drawn beforehand. */
function questionsFor(watched: { readonly count: number; readonly keys: Uint8Array }, seed: number, count: number) {
  const random = createSfc32(seed);
  const bytes = new Uint8Array(count * 32);
  for (let at = 0; at < count; at++) {
    const target = bytes.subarray(at * 32, at * 32 + 32);
    if (random.below(2) === 0) random.fill(target);
    else {
      const hit = random.below(watched.count) * 32;
      target.set(watched.keys.subarray(hit, hit + 32));
    }
  }
  const texts = Array.from({ length: count }, (_, at) => encode32(bytes, at * 32));
  return { words: new Uint32Array(bytes.buffer), texts };
}

async function run(options: RunOptions): Promise<RowResult[]> {
  return [speed(options), memory(options)];
}

function speed({ size, seed, say }: RunOptions): RowResult {
  const count = size === 'smoke' ? 2_000 : 1_000_000;
  say(`${count} addresses in both structures`);
  const watched = watchedAddresses(seed, count);
  const index = indexOf(watched, seed + 1);
  const map = new Map<string, readonly number[]>();
  for (let at = 0; at < count; at++) map.set(encode32(keyOf(watched, at)), watched.owners[at]!);
  const questions = Math.min(count, 400_000);
  const { words, texts } = questionsFor(watched, seed + 2, questions);
  const found = new Uint32Array(questions);
  index.findAll(words, questions, found);
  for (let at = 0; at < questions; at++) {
    const entry = index.find(words, at * 8);
    assert.equal(found[at], entry + 1);
    const expected = map.get(texts[at]!);
    const owners = entry < 0 ? 0 : index.ownerCount(entry);
    assert.equal(owners, expected?.length ?? 0);
    for (let place = 0; place < owners; place++) assert.ok(expected!.includes(index.ownerAt(entry, place)));
  }
  // As the follower asks: all keys of a block in one call. Both sides answer where the owners are, without reading them.
  const mine = () => {
    let sum = 0;
    index.findAll(words, questions, found);
    for (let at = 0; at < questions; at++) if (found[at] !== 0) sum++;
    return sum;
  };
  const theirs = () => {
    let sum = 0;
    for (let at = 0; at < questions; at++) {
      if (map.get(texts[at]!) !== undefined) sum++;
    }
    return sum;
  };
  const timing = size === 'smoke' ? { pairs: 2, minMs: 1 } : { pairs: 10, minMs: 500 };
  const { oursMs, baselineMs, sink } = paired({ run: mine }, { run: theirs }, timing);
  const perSecond = (ms: number): number => (questions / ms) * 1000;
  const ratio = ratioOf(baselineMs, oursMs);
  return {
    row: 'G7a',
    name: 'address look-ups vs Map of strings',
    unit: 'look-ups/s',
    ours: oursMs.map(perSecond),
    baseline: baselineMs.map(perSecond),
    ratio,
    goal: '>= 1.7x',
    verdict: size === 'smoke' ? 'not assessed' : ratio.median >= 1.7 ? 'met' : 'missed',
    sizes: { addresses: count, questions },
    seed,
    notes: ['half hits, half misses; one address in ten has 2 to 20 owners', `sink ${sink}`],
  };
}

/** Each candidate in a process of its own, which collects garbage before and after. */
function memory({ size, seed, say }: RunOptions): RowResult {
  const count = size === 'smoke' ? 2_000 : 1_000_000;
  const bytesOf = (candidate: string): number => {
    say(`memory of ${candidate}`);
    const { path, execArgv } = siblingModule(import.meta.url, '../samples/memory-child.ts');
    const args = ['--expose-gc', ...execArgv, path, candidate, String(count), String(seed)];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 300_000 });
    if (status !== 0) throw new Error(`memory of ${candidate}: ${stderr}`);
    return Number(stdout) / count;
  };
  const ours = bytesOf('index');
  const map = bytesOf('map');
  return {
    row: 'G7b',
    name: 'memory of a watched address',
    unit: 'bytes',
    ours: [ours],
    baseline: [map],
    ratio: null,
    goal: '<= 50 B',
    verdict: size === 'smoke' ? 'not assessed' : ours <= 50 ? 'met' : 'missed',
    sizes: { addresses: count },
    seed,
    notes: ['one address in ten has 2 to 20 owners; beside it a Map of flat base58 strings to lists of owners'],
  };
}

export const matchingRow: Row = { id: 'G7', name: 'matching of watched addresses', run };
