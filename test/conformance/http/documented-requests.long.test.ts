/** Every operation of `/openapi.json` takes the examples of its path and query as they stand: all together, and each optional one alone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { coreConfig } from '../../../src/config/core.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { startUpstream } from '../../helpers/upstream.ts';

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly example?: unknown;
}
interface Operation {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example?: unknown }>> };
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
/** What a call needs beside its path, by members that the schema has to leave optional: one time of three. */
const NEEDED: Readonly<Record<string, readonly string[]>> = { 'get /v1/wallet/{wallet}/balance-at': ['time'] };

test('requests: the examples of path and query are accepted', async (t) => {
  const upstream = await startUpstream();
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: [...(coreConfig.properties.plugins.default as readonly string[]), 'signup'],
      signup: { treasury: '11111111111111111111111111111111', lamports: 1 },
      follow: { enabled: false },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  const { paths } = (await (await fetch(`${daemon.apiUrl}/openapi.json`)).json()) as Document;
  const faults: string[] = [];
  let sent = 0;
  for (const [path, operations] of Object.entries(paths))
    for (const [method, { parameters = [], requestBody }] of Object.entries(operations)) {
      if (!METHODS.includes(method) || path === '/' || path === '/fast') continue;
      const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
        const example = parameters.find((one) => one.in === 'path' && one.name === name)?.example;
        assert.ok(example !== undefined, `${method} ${path} has no example of ${name}`);
        // A key sees its own project only.
        if (path.startsWith('/v0/admin/projects/')) return daemon.projectId;
        return encodeURIComponent(String(example));
      });
      const query = parameters.filter((one) => one.in === 'query');
      const isNeeded = ({ name, required }: Parameter) =>
        required === true || NEEDED[`${method} ${path}`]?.includes(name) === true;
      const needed = query.filter((one) => isNeeded(one) && one.example !== undefined);
      const other = query.filter((one) => !isNeeded(one) && one.example !== undefined);
      const body = requestBody?.content['application/json']?.example;
      for (const chosen of [needed, ...other.map((one) => [...needed, one]), [...needed, ...other]]) {
        const text = chosen.map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`).join('&');
        const response = await fetch(`${daemon.apiUrl}${target}${text === '' ? '' : `?${text}`}`, {
          method: method.toUpperCase(),
          headers: { 'x-api-key': daemon.key, 'content-type': 'application/json' },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        const answer = await response.text();
        sent += 1;
        if (response.status === 400 || response.status === 405 || /invalid path/.test(answer))
          faults.push(`${method} ${path}?${text}: ${response.status} ${answer.slice(0, 300)}`);
      }
    }
  assert.ok(sent > 60, String(sent));
  assert.deepEqual(faults, []);
});
