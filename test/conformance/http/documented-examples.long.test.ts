/** Examples of the reference fit together: what a form or a generated client sends first is no bad request. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPlainObject } from '../../../src/lib/json.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import type { Schema, SchemaDocument } from '../../helpers/schema-values.ts';
import { startUpstream } from '../../helpers/upstream.ts';

type Members = Readonly<Record<string, unknown>>;

interface Document extends SchemaDocument {
  readonly paths: Record<
    string,
    Record<
      string,
      {
        readonly requestBody?: {
          readonly content: Record<string, { readonly schema: Schema; readonly example?: unknown }>;
        };
      }
    >
  >;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** Examples that a schema has for itself, or makes of those of its parts, as generators of requests do. */
function examplesOf(document: Document, given: unknown): readonly unknown[] {
  if (!isPlainObject(given)) return [];
  const reference = given['$ref'];
  if (typeof reference === 'string')
    return examplesOf(document, document.components.schemas[reference.split('/').at(-1) as string]);
  const own = Array.isArray(given['examples']) ? (given['examples'] as readonly unknown[]) : [];
  return own.length > 0 ? own : madeOf(document, given);
}

/** The same without those of its own: one value of each member that has any. */
function madeOf(document: Document, schema: Members): readonly unknown[] {
  for (const name of ['anyOf', 'oneOf', 'allOf'] as const) {
    const parts = schema[name];
    if (Array.isArray(parts)) return parts.flatMap((part) => examplesOf(document, part));
  }
  if (isPlainObject(schema['properties'])) {
    const entries = Object.entries(schema['properties']).flatMap(([name, member]) => {
      const [value] = examplesOf(document, member);
      return value === undefined ? [] : [[name, value] as const];
    });
    return entries.length === 0 ? [] : [Object.fromEntries(entries)];
  }
  return examplesOf(document, schema['items'])
    .slice(0, 1)
    .map((item) => [item]);
}

test('bodies: the examples of a body, whole or of its members together, are accepted', async (t) => {
  const upstream = await startUpstream();
  const email = { server: 'smtp://127.0.0.1:9', from: 'parhelion@example.org' };
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: { follow: { enabled: false }, webhooks: { maxPerProject: 100, email } },
  });
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  const document = (await (await fetch(`${daemon.apiUrl}/openapi.json`)).json()) as Document;
  const send = async (method: string, path: string, body: unknown) => {
    const headers = { 'x-api-key': daemon.key, 'content-type': 'application/json' };
    const response = await fetch(daemon.apiUrl + path, { method, headers, body: JSON.stringify(body) });
    return { status: response.status, text: await response.text() };
  };
  const hook = await send('POST', '/v0/webhooks', { webhookURL: 'https://example.org/hook' });
  const { webhookID } = JSON.parse(hook.text) as { webhookID: string };
  const faults: string[] = [];
  let bodies = 0;
  for (const [path, operations] of Object.entries(document.paths))
    for (const [method, { requestBody }] of Object.entries(operations)) {
      const { schema, example } = (requestBody?.content['application/json'] ?? {}) as {
        schema?: Members;
        example?: unknown;
      };
      if (schema === undefined || path === '/' || path === '/fast') continue;
      const reference = schema['$ref'];
      const whole =
        typeof reference === 'string' ? document.components.schemas[reference.split('/').at(-1) as string] : schema;
      // A webhook of one type refuses the members of another one: only its whole examples fit.
      const isOfTypes = /^\/v0\/webhooks(?:\/\{webhookID\})?$/.test(path);
      const made = isOfTypes ? [] : madeOf(document, whole as Members);
      for (const body of [...examplesOf(document, schema), ...made, ...(example === undefined ? [] : [example])]) {
        bodies += 1;
        const target = path
          .replace('{webhookID}', webhookID)
          .replace('{deliveryId}', '1')
          .replace('{programId}', 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
        const { status, text } = await send(method.toUpperCase(), target, body);
        if (status === 400) faults.push(`${method} ${path} ${JSON.stringify(body)}: ${text}`);
      }
    }
  assert.ok(bodies > 20, String(bodies));
  assert.deepEqual(faults, []);
});
