import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import { OWN_WORK } from '../../src/ports/access.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { createTokenList } from './token-list.ts';

const MAINNET = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d';

function listFile(t: TestContext, content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-list-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'list.json');
  writeFileSync(path, content);
  return path;
}

/** A chain with this genesis hash; null: no upstream answers. */
function chainOf(hash: string | null, asked: string[] = []): ChainReader {
  return {
    status: () => ({ genesisHash: null }),
    async call(method: string) {
      asked.push(method);
      if (hash === null) throw new Error('nobody answers');
      return hash;
    },
  } as unknown as ChainReader;
}

const full = {
  chainId: 101,
  address: 'mint',
  symbol: 'S',
  name: 'N',
  decimals: 6,
  logoURI: 'logo',
  tags: ['stablecoin'],
  extensions: { website: 'w' },
};
const content = JSON.stringify({
  tokens: [full, { chainId: 101, address: 'bare' }, { ...full, chainId: 103, name: 'dev' }, null, { address: 'x' }, 7],
});

test('a list may be compressed, as the built one is', async (t) => {
  const path = `${listFile(t, '')}.br`;
  writeFileSync(path, brotliCompressSync(content));
  const log = createMemoryLog();
  const find = await createTokenList({ config: { path, chainId: 101 }, chain: null, log }).entries();
  assert.equal(find('mint')?.name, 'N');
});

test('entries are those of the network at hand, with everything filled in', async (t) => {
  const path = listFile(t, content);
  const log = createMemoryLog();
  const find = async (chainId: number | null, hash: string | null) =>
    await createTokenList({ config: { path, chainId }, chain: chainOf(hash), log }).entries();
  const main = await find(null, MAINNET);
  assert.deepEqual(main('mint'), full);
  const bare = { symbol: '', name: '', decimals: 0, logoURI: '', tags: [], extensions: {} };
  assert.deepEqual(main('bare'), { chainId: 101, address: 'bare', ...bare });
  assert.equal(main('x'), null);
  assert.equal((await find(null, 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG'))('mint')?.name, 'dev');
  assert.equal((await find(103, MAINNET))('mint')?.name, 'dev');
  // A network that no list has, such as one's own.
  assert.equal((await find(null, 'something else'))('mint'), null);
  assert.deepEqual(log.lines, []);
});

test('a node that does not answer is asked again, the file is read once', async (t) => {
  const path = listFile(t, content);
  const asked: string[] = [];
  let hash: string | null = null;
  const chain = {
    ...chainOf(null),
    call: (...given: [string]) => chainOf(hash, asked).call(given[0], [], { tenant: OWN_WORK }),
  } as ChainReader;
  const list = createTokenList({ config: { path, chainId: null }, chain, log: createMemoryLog() });
  assert.equal((await list.entries())('mint'), null);
  hash = MAINNET;
  rmSync(path);
  assert.equal((await list.entries())('mint')?.name, 'N');
  await list.entries();
  assert.deepEqual(asked, ['getGenesisHash', 'getGenesisHash']);
});

test('without a list, or with one that is none, there are no entries, and the log says so once', async (t) => {
  const chain = chainOf(MAINNET);
  for (const [path, lines] of [
    [listFile(t, '{"tokens":7}'), 1],
    [listFile(t, 'x'), 1],
    ['/nowhere/list.json', 1],
  ] as const) {
    const log = createMemoryLog();
    const list = createTokenList({ config: { path, chainId: null }, chain, log });
    for (let i = 0; i < 2; i++) assert.equal((await list.entries())('mint'), null);
    assert.equal(log.lines.length, lines);
  }
});
