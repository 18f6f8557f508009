import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import { readRpcReply } from '../../../src/lib/json-rpc.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { answerFor, cacheEntry, createDiskCache, decodeEntry, encodeEntry } from './answer-cache.ts';

const entryOf = (result: string, id = '7') => {
  const bytes = Buffer.from(`{"jsonrpc":"2.0","result":${result},"id":${id}}`);
  return cacheEntry(bytes, readRpcReply(bytes)!)!;
};

async function temporaryFolder(t: TestContext): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'parhelion-cache-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

function open(dir: string, maxBytes = 64 * 1024 * 1024, pendingBytes = 1_000_000) {
  const log = createMemoryLog();
  return {
    log,
    cache: createDiskCache({
      dir,
      maxBytes,
      pendingBytes,
      clock: createSystemClock(),
      random: createSystemRandom(),
      log,
    }),
  };
}

async function filesOf(dir: string): Promise<string[]> {
  const names = await readdir(dir, { recursive: true, withFileTypes: true });
  return names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

test('an entry is read back byte for byte, also after a restart', async (t) => {
  const dir = await temporaryFolder(t);
  const first = open(dir);
  first.cache.put('a', entryOf('{"lamports":18446744073709551615}'));
  await first.cache.idle();
  const again = await open(dir).cache.get('a');
  assert.equal(
    answerFor(again!, '"x"').toString(),
    '{"jsonrpc":"2.0","result":{"lamports":18446744073709551615},"id":"x"}',
  );
  assert.equal(await open(dir).cache.get('b'), null);
});

test('a damaged or incomplete file is a miss and is removed', async (t) => {
  const dir = await temporaryFolder(t);
  const { cache, log } = open(dir);
  cache.put('a', entryOf('[1,2,3]'));
  await cache.idle();
  const [path] = await filesOf(dir);
  const whole = await readFile(path!);
  for (const broken of [whole.subarray(0, whole.length - 5), Buffer.alloc(0), flipped(whole, whole.length - 9)]) {
    await writeFile(path!, broken);
    assert.equal(await cache.get('a'), null);
    await assert.rejects(stat(path!), { code: 'ENOENT' });
  }
  assert.deepEqual(log.lines, []);
});

test('no change of one byte is accepted as an entry', () => {
  const file = encodeEntry('key', entryOf('"some result"'));
  assert.ok(decodeEntry('key', file));
  assert.equal(decodeEntry('other', file), null);
  fc.assert(
    fc.property(fc.nat(file.length - 1), fc.integer({ min: 1, max: 255 }), (at, bits) => {
      assert.equal(decodeEntry('key', flipped(file, at, bits)), null);
    }),
  );
});

test('the folder stays within its size, and recently used entries stay', async (t) => {
  const dir = await temporaryFolder(t);
  // Sixteen shards of eight file system blocks each.
  const { cache } = open(dir, 16 * 8 * 4096, 100_000_000);
  for (let i = 0; i < 400; i++) {
    cache.put(`key ${i}`, entryOf(`"${'x'.repeat(100)}${i}"`));
    await cache.idle();
  }
  const sizes = await Promise.all(
    (await filesOf(dir)).map(async (path) => Math.ceil((await stat(path)).size / 4096) * 4096),
  );
  const total = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(total <= 16 * 8 * 4096, `${total} bytes`);
  assert.ok(sizes.length > 40, `${sizes.length} files`);
  assert.ok(await cache.get('key 399'));
});

test('the number of pending writes is bounded', async (t) => {
  const dir = await temporaryFolder(t);
  const entry = entryOf(`"${'x'.repeat(1_000)}"`);
  const { cache } = open(dir, 1_000_000_000, entry.bytes.length * 3);
  for (let i = 0; i < 10; i++) cache.put(`key ${i}`, entry);
  await cache.idle();
  assert.equal((await filesOf(dir)).length, 3);
  cache.put('later', entry);
  await cache.idle();
  assert.ok(await cache.get('later'));
});

test('an unwritable folder is a miss with a warning', async (t) => {
  const dir = await temporaryFolder(t);
  await writeFile(join(dir, 'file'), '');
  const { cache, log } = open(join(dir, 'file'));
  cache.put('a', entryOf('1'));
  await cache.idle();
  assert.equal(await cache.get('a'), null);
  assert.ok(log.lines.every(({ level }) => level === 'warn') && log.lines.length > 0);
});

test('null results and answers without an id are not cached', () => {
  const entry = (json: string) => cacheEntry(Buffer.from(json), readRpcReply(Buffer.from(json))!);
  assert.equal(entry('{"jsonrpc":"2.0","result":null,"id":1}'), null);
  assert.equal(entry('{"jsonrpc":"2.0","error":{"code":-32004},"id":1}'), null);
  assert.equal(entry('{"jsonrpc":"2.0","result":5}'), null);
  assert.ok(entry('{"jsonrpc":"2.0","result":5,"id":1}'));
});

function flipped(bytes: Buffer, at: number, bits = 1): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = copy[at]! ^ bits;
  return copy;
}
