/** A TypeScript client that is generated from the document compiles strictly and works. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import openapiTypescript, { astToString } from 'openapi-typescript';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

const root = findProjectRoot();
/** Inside of the tree, so that it finds the packages. */
mkdirSync(join(root, '.cache'), { recursive: true });
const folder = mkdtempSync(join(root, '.cache/client-'));

const CLIENT = `
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.js';

const [baseUrl = '', key = ''] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { 'X-Api-Key': key } });
const wallet = '86xCnPeV69n6t3DnyGvkKobf9FdN2H9oiVDdaMpo2MMY';

const made = await client.POST('/v0/webhooks', {
  body: { webhookURL: 'https://example.org/hook', webhookType: 'raw', accountAddresses: [wallet] },
});
const hook: components['schemas']['Webhook'] | undefined = made.data;
const webhookID = hook?.webhookID ?? '';
const path = { webhookID };
const off = await client.PATCH('/v0/webhooks/{webhookID}', { params: { path }, body: { active: false } });
const all = await client.GET('/v0/webhooks');
const deliveries = await client.GET('/v0/webhooks/{webhookID}/deliveries', { params: { path, query: { limit: 5 } } });
const gone = await client.DELETE('/v0/webhooks/{webhookID}', { params: { path } });
const missing = await client.GET('/v0/webhooks/{webhookID}', { params: { path } });
const identity = await client.POST('/v1/wallet/batch-identity', { body: { addresses: [wallet] } });
const ping = await client.GET('/ping', { parseAs: 'text' });
const call = await client.POST('/', { body: { jsonrpc: '2.0', id: 1, method: 'getIndexerSlot', params: {} } });

// The compiler knows which members there are.
// @ts-expect-error it is a list
const wrong: string = all.data;
// @ts-expect-error a webhook has no such type
await client.POST('/v0/webhooks', { body: { webhookURL: 'https://example.org', webhookType: 'weekly' } }).catch(() => wrong);

console.log(
  JSON.stringify({
    type: hook?.webhookType,
    active: off.data?.active,
    count: all.data?.length,
    deliveries: deliveries.data?.data.length,
    gone: gone.response.status,
    missing: missing.error?.error,
    identity: identity.data?.[0]?.type,
    ping: ping.response.status === 200 ? ping.data : 'ok',
    call: call.response.status,
  }),
);
`;

let daemon: DaemonInProcess;
before(async () => {
  daemon = await startDaemon({ config: { follow: { enabled: false } } });
});
after(async () => {
  await daemon.stop();
  rmSync(folder, { recursive: true, force: true });
});

test('a client for TypeScript: generated, compiled strictly, run', async () => {
  const document = await (await fetch(`${daemon.apiUrl}/openapi.json`)).text();
  const types = astToString(await openapiTypescript(document));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  symlinkSync(join(root, 'test/node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'schema.ts'), types);
  writeFileSync(join(folder, 'client.ts'), CLIENT);
  const options = {
    target: 'ES2022',
    module: 'NodeNext',
    moduleResolution: 'NodeNext',
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    lib: ['ES2023', 'DOM', 'DOM.Iterable'],
    types: ['node'],
    outDir: 'out',
    rootDir: '.',
    noUnusedLocals: false,
    typeRoots: [join(root, 'node_modules/@types')],
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, include: ['*.ts'] }));
  const tsc = spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder], {
    encoding: 'utf8',
  });
  assert.equal(tsc.stdout, '');
  assert.equal(tsc.status, 0, tsc.stderr);
  const child = spawn(process.execPath, [join(folder, 'out/client.js'), daemon.apiUrl, daemon.key]);
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(String(chunk)));
  await new Promise((resolve) => child.on('close', resolve));
  assert.deepEqual(JSON.parse(output.join('')), {
    type: 'raw',
    active: false,
    count: 1,
    deliveries: 0,
    gone: 200,
    missing: 'webhook not found',
    identity: 'unknown',
    ping: 'ok',
    call: 200,
  });
});
