import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { encode32 } from '../../../src/lib/base58.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { MEMO_PROGRAMS } from '../../../src/solana/programs.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { createLabels, readLabel } from './labels.ts';

const SYSTEM = '11111111111111111111111111111111';
const label = (more: object = {}) => ({
  address: encode32(randomBytes(32)),
  name: 'N',
  type: 't',
  category: 'c',
  tags: ['x'],
  source: 's',
  ...more,
});

function setUp(t: TestContext, files: Readonly<Record<string, readonly unknown[]>>, maxLabels = 1_000) {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-labels-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const write = (name: string, lines: readonly unknown[]) => {
    const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n');
    writeFileSync(join(folder, `${name}.new`), text);
    renameSync(join(folder, `${name}.new`), join(folder, name));
  };
  for (const [name, lines] of Object.entries(files)) write(name, lines);
  const clock = createManualClock();
  const log = createMemoryLog();
  const labels = createLabels({
    config: { files: Object.keys(files).map((name) => join(folder, name)), reloadMs: 1_000, maxLabels },
    clock,
    log,
    metrics: createMetricsRegistry().scope('wallet'),
  });
  t.after(() => labels.stop());
  return { labels, clock, log, write, folder };
}

test('later files win, built-in labels can be replaced, and conflicts are logged', async (t) => {
  const one = label({ name: 'first', source: 'list one' });
  const two = { ...one, name: 'second', source: 'list two' };
  const { labels, log } = setUp(t, { 'a.jsonl': [one], 'b.jsonl': [two, label({ address: SYSTEM, name: 'Ours' })] });
  assert.equal(labels.find(SYSTEM)?.name, 'System Program', 'before the files are read');
  await labels.start();
  assert.equal(labels.find(one.address)?.name, 'second');
  assert.equal(labels.find(SYSTEM)?.name, 'Ours');
  const clash = log.lines.find(({ fields }) => fields['address'] === one.address);
  assert.deepEqual([clash?.fields['earlierSource'], clash?.fields['source']], ['list one', 'list two']);
});

test('every memo program has a label of its own', (t) => {
  const { labels } = setUp(t, {});
  const names = MEMO_PROGRAMS.map((address) => labels.find(address)?.name ?? '');
  for (const name of names) assert.match(name, /^Memo v\d$/);
  assert.equal(new Set(names).size, MEMO_PROGRAMS.length);
});

test('malformed lines are skipped and counted', async (t) => {
  const good = label();
  const bad = ['{', '7', '[]', 'null', { ...good, source: undefined }, label({ address: 'x' }), label({ tags: [1] })];
  const { labels, log } = setUp(t, { 'a.jsonl': ['', '# note', ...bad, good, label({ website: 5 })] });
  await labels.start();
  assert.equal(labels.find(good.address)?.name, 'N');
  const told = log.lines.find(({ fields }) => 'malformed' in fields);
  assert.deepEqual([told?.fields['malformed'], told?.fields['firstMalformedLine']], [bad.length + 1, 3]);
});

test('a changed file is reloaded; a removed one keeps the loaded labels', async (t) => {
  const [one, two] = [label(), label()];
  const { labels, clock, write, folder, log } = setUp(t, { 'a.jsonl': [one] });
  await labels.start();
  assert.equal(labels.find(two.address), null);
  write('a.jsonl', [two]);
  await untilAfter(clock, () => labels.find(two.address) !== null);
  assert.equal(labels.find(one.address), null);
  rmSync(join(folder, 'a.jsonl'));
  await untilAfter(clock, () => log.lines.some(({ message }) => message.includes('cannot be read')));
  assert.equal(labels.find(two.address)?.name, 'N');
  write('a.jsonl', [one]);
  await untilAfter(clock, () => labels.find(one.address) !== null);
});

/** Advances time until a condition holds. */
async function untilAfter(clock: ReturnType<typeof createManualClock>, isSo: () => boolean): Promise<void> {
  for (const startedMs = performance.now(); !isSo(); await setImmediate()) {
    await clock.advance(1_000);
    if (performance.now() - startedMs > 60_000) throw new Error('it never became so');
  }
}

test('a missing file ends the start', async (t) => {
  const { labels } = setUp(t, { 'a.jsonl': [] });
  const missing = setUp(t, { 'b.jsonl': [] });
  rmSync(join(missing.folder, 'b.jsonl'));
  await assert.rejects(missing.labels.start(), { code: 'WALLET_LABELS_UNREADABLE', exitCode: 78 });
  await labels.start();
});

test('the number of labels is limited', async (t) => {
  const all = [label(), label(), label()];
  const { labels } = setUp(t, { 'a.jsonl': all }, 2);
  await labels.start();
  assert.deepEqual(
    all.map(({ address }) => labels.find(address) !== null),
    [true, true, false],
  );
});

test('no line throws, and labels are read back completely', () => {
  fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (line) => void readLabel(line)));
  const text = fc.string({ minLength: 1, maxLength: 100 });
  const made = fc.record(
    {
      address: fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => encode32(bytes)),
      name: text,
      type: text,
      category: text,
      source: text,
      tags: fc.array(text, { maxLength: 5 }),
    },
    { noNullPrototype: true },
  );
  fc.assert(fc.property(made, (given) => assert.deepEqual(readLabel(JSON.stringify(given)), given)));
});
