/** The schemas that are published are those that validate: what they accept is accepted, and what they refuse is refused with 400. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { encode } from '../../../src/lib/base58.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { createSchemaReader, type Schema, type SchemaDocument } from '../../helpers/schema-values.ts';

interface Document extends SchemaDocument {
  readonly paths: Record<
    string,
    Record<string, { readonly requestBody?: { readonly content: Record<string, { readonly schema: Schema }> } }>
  >;
}

const RUNS = 40;
/** Read as bytes or as a call, with rules that no schema can express: these have tests of their own. */
const CALLS = ['/', '/fast'];
/** Refusals that are about the state of the daemon or about what a value stands for, and not about the form of the body. */
const MEANING: Readonly<Record<string, RegExp>> = {
  'post /v0/signup': /is no address|is not a signature|must be a UUID/,
  'post /v0/webhooks': /no devnet upstream|parsed webhooks are not available|for webhooks of type parsed/,
  'put /v0/webhooks/{webhookID}': /no devnet upstream|parsed webhooks are not available|for webhooks of type parsed/,
  'put /v0/webhooks/notifications': /this daemon sends no e-mails/,
  'post /v0/webhooks/{webhookID}/secret/rotate': /too many active secrets/,
  'post /v0/webhooks/{webhookID}/replay':
    /before since|cannot be read again|must not be below|kept for|future|must be at least|too|slots/,
  'post /v0/webhooks/{webhookID}/recover': /kept for|future|before since/,
  'post /v0/webhooks/{webhookID}/resend': /kept for|future|before since/,
};

let daemon: DaemonInProcess;
let document: Document;
let webhookID: string;
before(async () => {
  const signup = { treasury: encode(new Uint8Array(32).fill(5)), lamports: 1_000, plan: 'free' };
  const plugins = ['access', 'enhanced', 'proxy', 'signup', 'token-metadata', 'wallet', 'webhooks'];
  const webhooks = { maxPerProject: 10_000 };
  daemon = await startDaemon({ config: { plugins, signup, webhooks, follow: { enabled: false } } });
  document = (await (await fetch(`${daemon.apiUrl}/openapi.json`)).json()) as Document;
  const made = await send('post /v0/webhooks', { webhookURL: 'https://example.org/hook' });
  ({ webhookID } = JSON.parse(made.text) as { webhookID: string });
});
after(() => daemon.stop());

async function send(operation: string, body: unknown) {
  const [method = '', path = ''] = operation.split(' ');
  const target = path.replace('{webhookID}', webhookID).replace('{deliveryId}', '1');
  const headers = { 'x-api-key': daemon.key, 'content-type': 'application/json' };
  const response = await fetch(`${daemon.apiUrl}${target}`, {
    method: method.toUpperCase(),
    headers,
    body: JSON.stringify(body),
  });
  return { status: response.status, text: await response.text() };
}

function operationsWithBody(): readonly (readonly [string, Schema])[] {
  const operations = Object.entries(document.paths)
    .filter(([path]) => !CALLS.includes(path))
    .flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, { requestBody }]) => {
        const schema = requestBody?.content['application/json']?.schema;
        return schema === undefined ? [] : [[`${method} ${path}`, schema] as const];
      }),
    );
  assert.ok(operations.length >= 13, String(operations.length));
  return operations;
}

bySeed(RUNS, ({ length: numRuns }) => {
  test('bodies: what the reference accepts is accepted, and what it refuses is refused', async (t) => {
    const { compile, valuesOf, damaged } = createSchemaReader(document);
    for (const [operation, schema] of operationsWithBody())
      await t.test(operation, async () => {
        const accepts = compile(schema);
        const isRefused = async (body: unknown) => {
          const { status, text } = await send(operation, body);
          assert.ok(status < 500 || status === 503 || status === 504, `${status} ${text}`);
          if (status === 400 && MEANING[operation]?.test(text) === true) return null;
          return status === 400 ? text : false;
        };
        await fc.assert(
          fc.asyncProperty(valuesOf(schema), async (body) => {
            assert.ok(accepts(body), JSON.stringify(body));
            const refused = await isRefused(body);
            assert.ok(refused === false || refused === null, `${JSON.stringify(body)}: ${refused}`);
          }),
          { numRuns },
        );
        await fc.assert(
          fc.asyncProperty(damaged(valuesOf(schema)), async (body) => {
            if (accepts(body)) return;
            assert.notEqual(await isRefused(body), false, JSON.stringify(body));
          }),
          { numRuns },
        );
      });
  });
});

test('bodies: no value at any place makes the daemon fail', async () => {
  const { oddAtEachPlace } = createSchemaReader(document);
  for (const [operation, schema] of operationsWithBody())
    for (const body of oddAtEachPlace(schema)) {
      const { status, text } = await send(operation, body);
      assert.ok(status < 500 || status === 503 || status === 504, `${operation} ${JSON.stringify(body)}: ${text}`);
    }
});
