import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { encode32 } from '../../../src/lib/base58.ts';
import { metadataAddress } from '../../../src/solana/addresses.ts';
import { nameMint } from '../../../src/solana/names.ts';
import { METADATA_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import {
  type AccountUpstream,
  mintData,
  startAccountUpstream,
  tokenAccountData,
} from '../../helpers/account-upstream.ts';
import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { setFavourite, setName, wrapName } from '../../helpers/name-accounts.ts';
import { loadPackage } from '../../helpers/packages.ts';
import { writeMetadata } from '../../helpers/write-metadata.ts';

const sdk = await loadPackage('helius-sdk', () => import('helius-sdk'));

const CUT_OFF = 452_825_395;
const MAINNET = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d';
const SYSTEM = '11111111111111111111111111111111';

/** A random key. */
function someone(): Uint8Array {
  const der = generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' });
  return new Uint8Array(der.subarray(-32));
}

const exchange = someone();
const stranger = someone();
const label = {
  address: encode32(exchange),
  name: 'Exchange 1',
  type: 'exchange',
  category: 'Centralized Exchange',
  tags: ['Centralized Exchange'],
  website: 'https://exchange.example',
  source: 'its own list',
};
const { source: _, ...labelShown } = label;

let upstream: AccountUpstream;
let daemon: DaemonInProcess;
let folder: string;
let file: string;
let freeKey: string;

const writeLabels = (lines: readonly unknown[]) => {
  const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n');
  writeFileSync(`${file}.next`, text);
  renameSync(`${file}.next`, file);
};

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parhelion-labels-'));
  file = join(folder, 'labels.jsonl');
  writeLabels(['# exchanges', label, 'no JSON', { address: encode32(stranger), name: 'no source' }]);
  upstream = await startAccountUpstream({ slot: 400_000_000, genesisHash: MAINNET });
  daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      wallet: {
        identity: { files: [file], reloadMs: 100 },
        sns: { cacheSeconds: 0, negativeCacheSeconds: 0 },
      },
    },
  });
  const cli = async (...args: string[]) => {
    const { code, out, err } = await runCommand([...args, '--json', '--config', daemon.configFile]);
    assert.equal(code, 0, err);
    return JSON.parse(out) as { readonly id: string; readonly key: string };
  };
  const { id } = await cli('projects', 'create', '--name', 'free', '--plan', 'free');
  freeKey = (await cli('keys', 'create', '--project', id)).key;
});
after(async () => {
  await daemon.stop();
  await upstream.stop();
  await rm(folder, { recursive: true });
});

async function ask(path: string, init: RequestInit = {}, key = daemon.key) {
  const response = await fetch(`${daemon.apiUrl}/v1/wallet/${path}`, { ...init, headers: { 'X-Api-Key': key } });
  return { status: response.status, body: (await response.json()) as unknown };
}
const batch = (body: unknown) => ask('batch-identity', { method: 'POST', body: JSON.stringify(body) });
const badAddress = (details: string) => ({
  status: 400,
  body: { error: 'Invalid wallet address', code: 400, details },
});

test('a label of a file, of the program, and an address without one', async () => {
  assert.deepEqual(await ask(`${label.address}/identity`), { status: 200, body: labelShown });
  const program = await ask(`${SYSTEM}/identity`);
  assert.deepEqual(program.body, {
    address: SYSTEM,
    type: 'program',
    name: 'System Program',
    category: 'Native',
    tags: ['Native'],
  });
  assert.deepEqual(await ask(`${encode32(stranger)}/identity`), {
    status: 404,
    body: { error: 'No identity information available for this address', code: 404 },
  });
});

test('inputs that are neither address nor name', async () => {
  for (const text of ['x', 'O'.repeat(40), '1'.repeat(33), 'z'.repeat(44), `${SYSTEM}1`])
    assert.deepEqual(await ask(`${text}/identity`), badAddress(`'${text}' is not a valid Solana address`));
  const long = 'a'.repeat(300);
  assert.deepEqual(await ask(`${long}/identity`), badAddress(`'${long.slice(0, 64)}' is not a valid Solana address`));
  assert.equal((await ask('a..sol/identity')).status, 400);
  assert.equal((await ask('a%20b.sol/identity')).status, 400);
});

test('a name resolves to its owner, and the identity is returned', async () => {
  setName(upstream.accounts, 'exchange', exchange);
  setName(upstream.accounts, 'stranger', stranger);
  const { status, body } = await ask('Exchange.SOL/identity');
  assert.equal(status, 200);
  assert.equal((body as { address: string }).address, label.address);
  assert.ok(!('inputDomain' in (body as object)));
  assert.deepEqual(await ask('stranger.sol/identity'), {
    status: 404,
    body: {
      error: 'No identity information available for this address',
      code: 404,
      details: `stranger.sol resolves to ${encode32(stranger)}`,
    },
  });
  for (const name of ['nobody.sol', 'exchange.eth', 'a.b.exchange.sol'])
    assert.deepEqual(await ask(`${name}/identity`), {
      status: 404,
      body: { error: `Domain '${name}' could not be resolved`, code: 404 },
    });
});

test('a name that is a token stands for its holder', async () => {
  const domain = setName(upstream.accounts, 'wrapped', stranger);
  const account = wrapName(upstream.accounts, domain, exchange);
  assert.equal((await ask('wrapped.sol/identity')).status, 200);
  const held = upstream.accounts.get(account)!;
  upstream.accounts.delete(account);
  assert.equal((await ask('wrapped.sol/identity')).status, 404, 'nobody holds it');
  upstream.accounts.set(account, held);
});

test('the names of an address: its favourite first, the others in order', async () => {
  const owner = someone();
  const labels = [label, { ...label, address: encode32(owner), name: 'Owner', website: undefined }];
  for (const name of ['zebra', 'mango', 'apple']) setName(upstream.accounts, name, owner);
  setFavourite(upstream.accounts, owner, setName(upstream.accounts, 'melon', owner));
  writeLabels(labels);
  const found = await until(`${encode32(owner)}/identity`, (body) => 'domainNames' in body);
  assert.deepEqual(found['domainNames'], ['melon.sol', 'apple.sol', 'mango.sol', 'zebra.sol']);
  assert.ok(!('website' in found));
  // A favourite that was transferred away is ignored.
  setName(upstream.accounts, 'melon', stranger);
  const later = await until(`${encode32(owner)}/identity`, (body) => (body['domainNames'] as string[]).length === 3);
  assert.deepEqual(later['domainNames'], ['apple.sol', 'mango.sol', 'zebra.sol']);
  // A node that refuses the scan costs the names only.
  upstream.refuse('getProgramAccounts', { code: -32010, message: 'excluded' });
  const without = await until(`${encode32(owner)}/identity`, (body) => !('domainNames' in body));
  assert.equal(without['name'], 'Owner');
  upstream.refuse('getProgramAccounts', null);
});

test('names that an address holds as tokens are among its names, and only real ones', async () => {
  const owner = someone();
  writeLabels([label, { ...label, address: encode32(owner), name: 'Holder' }]);
  const domain = setName(upstream.accounts, 'token-name', stranger);
  wrapName(upstream.accounts, domain, owner);
  setTokenName(nameMint(domain), 'token-name.sol');
  // Anybody can call a token like a name.
  const forged = someone();
  upstream.accounts.set(encode32(forged), { owner: TOKEN_PROGRAM, data: mintData(0, 1n), lamports: 1n });
  upstream.accounts.set(encode32(someone()), { owner: TOKEN_PROGRAM, data: tokenAccountData(forged, owner, 1n) });
  setTokenName(forged, 'exchange.sol');
  const found = await until(`${encode32(owner)}/identity`, (body) => 'domainNames' in body);
  assert.deepEqual(found['domainNames'], ['token-name.sol']);
});

function setTokenName(mint: Uint8Array, name: string): void {
  const [key, nothing] = [encode32(mint), null];
  const texts = { updateAuthority: key, mint: key, name, symbol: '', uri: '' };
  const flags = { sellerFeeBasisPoints: 0, primarySaleHappened: false, isMutable: true };
  const absent = { creators: nothing, editionNonce: nothing, tokenStandard: nothing, collection: nothing };
  const rest = { uses: nothing, collectionDetails: nothing, programmableConfig: nothing };
  const { data } = writeMetadata({ ...texts, ...flags, ...absent, ...rest }, true);
  upstream.accounts.set(metadataAddress(encode32(mint)), { owner: METADATA_PROGRAM, data, lamports: 1n });
}

/** Asks until the answer is as wanted. */
async function until(path: string, isWanted: (body: Record<string, unknown>) => boolean) {
  for (const startedMs = performance.now(); performance.now() - startedMs < 60_000; await sleep(50)) {
    const { status, body } = await ask(path);
    if (status === 200 && isWanted(body as Record<string, unknown>)) return body as Record<string, unknown>;
  }
  throw new Error(`${path} never became what was wanted`);
}

test('a batch answers each input in its place', async () => {
  const unknown = encode32(someone());
  const addresses = ['stranger.sol', label.address, unknown, 'Exchange.sol', 'nobody.sol', unknown, SYSTEM];
  const { status, body } = await batch({ addresses });
  assert.equal(status, 200);
  assert.deepEqual(body, [
    { address: encode32(stranger), type: 'unknown', inputDomain: 'stranger.sol' },
    labelShown,
    { address: unknown, type: 'unknown' },
    { ...labelShown, inputDomain: 'Exchange.sol' },
    { address: null, type: 'unknown', inputDomain: 'nobody.sol', unresolved: true },
    { address: unknown, type: 'unknown' },
    { address: SYSTEM, type: 'program', name: 'System Program', category: 'Native', tags: ['Native'] },
  ]);
});

test('a batch of a hundred names takes four calls', async () => {
  const names = Array.from({ length: 100 }, (_value, at) => `holder-${at}.sol`);
  const owners = names.map((name) => {
    const owner = someone();
    setName(upstream.accounts, name.slice(0, -4), owner);
    return encode32(owner);
  });
  const before = upstream.callsOf('getMultipleAccounts').length;
  const { body } = await batch({ addresses: names });
  assert.deepEqual(
    (body as { address: string }[]).map(({ address }) => address),
    owners,
  );
  assert.equal(upstream.callsOf('getMultipleAccounts').length - before, 4);
});

test('batches that are refused', async () => {
  const malformed = {
    status: 400,
    body: { error: 'Invalid request body', code: 400, details: 'addresses must be an array of 1 to 100 strings' },
  };
  for (const body of [{}, { wallets: [SYSTEM] }, { addresses: [] }, { addresses: SYSTEM }, [SYSTEM], null, 'x'])
    assert.deepEqual(await batch(body), malformed);
  assert.deepEqual(await batch({ addresses: Array(101).fill(SYSTEM) }), {
    status: 400,
    body: { error: 'Too many addresses', code: 400, details: 'at most 100 addresses per request, got 101' },
  });
  assert.equal((await batch({ addresses: Array(100).fill(SYSTEM) })).status, 200);
  const wrong = await batch({ addresses: [SYSTEM, SYSTEM, SYSTEM, 'bad'] });
  assert.deepEqual(wrong, badAddress("addresses[3]: 'bad' is not a valid Solana address"));
  assert.deepEqual(await batch({ addresses: [7] }), badAddress("addresses[0]: '7' is not a valid Solana address"));
});

test('an unresponsive chain is not reported as "not resolved"', async () => {
  upstream.refuse('getMultipleAccounts', { code: -32005, message: 'behind' });
  const refused = await ask('stranger.sol/identity');
  assert.equal(refused.status, 503);
  assert.equal((await batch({ addresses: [SYSTEM, 'stranger.sol'] })).status, 503);
  assert.equal((await batch({ addresses: [SYSTEM] })).status, 200);
  upstream.refuse('getMultipleAccounts', null);
  assert.equal((await ask('stranger.sol/identity')).status, 404);
});

test('plans, keys and charges', async () => {
  const free = await ask(`${SYSTEM}/identity`, {}, freeKey);
  assert.deepEqual(free, {
    status: 403,
    body: { error: 'Forbidden', code: 403, details: 'This endpoint requires a paid plan' },
  });
  const response = await fetch(`${daemon.apiUrl}/v1/wallet/batch-identity`, {
    method: 'POST',
    headers: { 'X-Api-Key': freeKey },
    body: '{"addresses":[]}',
  });
  assert.equal(response.status, 403);
  assert.equal((await ask(`${SYSTEM}/identity`, {}, 'wrong')).status, 401);
  const wrongMethod = await ask(`${SYSTEM}/identity`, { method: 'POST', body: '{}' });
  assert.deepEqual(wrongMethod, { status: 405, body: { error: 'Method not allowed', code: 405 } });
});

test('an unmodified client', { skip: sdk.skip }, async () => {
  const restore = redirectHostedClients(daemon.apiUrl);
  try {
    const { wallet } = sdk.module.createHelius({ apiKey: daemon.key });
    const { domainNames, ...identity } = await wallet.getIdentity({ wallet: label.address });
    assert.deepEqual([identity, domainNames], [labelShown, ['exchange.sol']]);
    const [known, unknown] = await wallet.getBatchIdentity({ addresses: [label.address, encode32(stranger)] });
    assert.deepEqual([known?.type, unknown?.type], ['exchange', 'unknown']);
    await assert.rejects(wallet.getIdentity({ wallet: encode32(stranger) }), /404|identity/i);
  } finally {
    restore();
  }
});

test('.sol names end at the cut-off, .sns names stay', async () => {
  upstream.on('getSlot', { result: String(CUT_OFF) });
  for (const startedMs = performance.now(); ; await sleep(200)) {
    if ((await ask('exchange.sol/identity')).status === 404) break;
    assert.ok(performance.now() - startedMs < 60_000, 'the cut-off is not seen');
  }
  assert.equal((await ask('exchange.sns/identity')).status, 200);
  const { body } = await batch({ addresses: ['exchange.sol', 'exchange.sns'] });
  assert.deepEqual(body, [
    { address: null, type: 'unknown', inputDomain: 'exchange.sol', unresolved: true },
    { ...labelShown, inputDomain: 'exchange.sns' },
  ]);
});
