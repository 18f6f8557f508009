/** The published schemas of JSON-RPC params are those that validate: what they accept is accepted, and what they refuse is -32602. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { byCase, bySeed } from '../../helpers/run-part.ts';
import { createSchemaReader, type Schema, type SchemaDocument } from '../../helpers/schema-values.ts';

const RUNS = 15;
const PLUGINS = ['access', 'accounts', 'compression', 'das', 'fees', 'proxy', 'token-metadata'];
/** Refusals that are about what a value stands for, or about two values together, which no schema expresses. */
const MEANING =
  /^Invalid cursor|paginationKey|encoding|deserialize|^No hashes or new addresses|^Cannot provide both|^Either (?:address or hash|hashes or addresses) must|^Not all requested|^No proving circuit|^At least one queue|Pagination|cannot be used together|^mint or owner|Validation Err/;

interface Document extends SchemaDocument {
  readonly paths: {
    readonly '/': {
      readonly post: {
        readonly requestBody: { readonly content: { readonly 'application/json': { readonly schema: Schema } } };
      };
    };
  };
}

let daemon: DaemonInProcess;
let document: Document;
before(async () => {
  ({ daemon, document } = await start(PLUGINS));
});
after(() => daemon.stop());

async function start(plugins: readonly string[]) {
  const config = { plugins, follow: { enabled: false }, compression: { verifyChain: false } };
  const daemon = await startDaemon({ config });
  const document = (await (await fetch(`${daemon.apiUrl}/openapi.json`)).json()) as Document;
  return { daemon, document };
}

/** A call for a slot that is not there waits for it. */
const withoutWait = (params: unknown): unknown =>
  JSON.parse(JSON.stringify(params), (name, value: unknown) =>
    name === 'minContextSlot' && Number.isSafeInteger(value) && (value as number) > 0 ? 0 : value,
  );

/** `code` 0: accepted. */
async function send(
  method: string,
  params: unknown,
  { apiUrl, key } = daemon,
): Promise<{ readonly code: number; readonly text: string }> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: withoutWait(params) });
  const response = await fetch(`${apiUrl}/?api-key=${key}`, { method: 'POST', body });
  const text = await response.text();
  const { error } = JSON.parse(text) as {
    readonly error?: { readonly code: number; readonly message: string; readonly data?: { readonly details?: string } };
  };
  return { code: error?.code ?? 0, text: error?.data?.details ?? error?.message ?? '' };
}

/** Each method, under all its names, with the schema of its params. */
function methodsWithParams(document: Document): readonly (readonly [string, Schema])[] {
  const { resolve } = createSchemaReader(document);
  const call = document.paths['/'].post.requestBody.content['application/json'].schema;
  const [single] = resolve(call)['anyOf'] as readonly Schema[];
  const methods = (resolve(single as Schema)['anyOf'] as readonly Schema[]).flatMap((one) => {
    const { method, params } = resolve(one)['properties'] as { readonly method: Schema; readonly params?: Schema };
    const names = [method['const'] ?? method['enum'] ?? []].flat();
    return params === undefined ? [] : names.map((name) => [name as string, params] as const);
  });
  assert.ok(methods.length >= 40, String(methods.length));
  return methods;
}

bySeed(RUNS, ({ length: numRuns }) => {
  test('params: what the reference accepts is accepted, and what it refuses is refused', async (t) => {
    const { resolve, compile, valuesOf, damaged } = createSchemaReader(document);
    for (const [name, schema] of methodsWithParams(document))
      await t.test(name, async () => {
        const accepts = compile(schema);
        const isContainer = (value: unknown) => typeof value === 'object' && value !== null;
        await fc.assert(
          // Two members that exclude each other are values of the schema's parts, and not of the schema.
          fc.asyncProperty(valuesOf(resolve(schema)).filter(accepts), async (params) => {
            const { code, text } = await send(name, params);
            assert.ok(code !== -32602 || MEANING.test(text), `${JSON.stringify(params)}: ${text}`);
            assert.notEqual(code, -32603, text);
          }),
          { numRuns },
        );
        await fc.assert(
          fc.asyncProperty(damaged(valuesOf(resolve(schema))).filter(isContainer), async (params) => {
            if (accepts(params)) return;
            const { code, text } = await send(name, params);
            assert.equal(code, -32602, `${JSON.stringify(params)}: ${text}`);
          }),
          { numRuns },
        );
      });
  });
});

byCase([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], (turns) =>
  test('params: no value at any place makes the daemon fail', async (t) => {
    const more = ['enhanced', 'history', 'parsed', 'sender', 'wallet', 'webhooks'];
    const { daemon, document } = await start([...PLUGINS, ...more]);
    t.after(() => daemon.stop());
    const { resolve, oddAtEachPlace } = createSchemaReader(document);
    const failed: string[] = [];
    // Other names of the same methods have an underscore.
    const methods = methodsWithParams(document).filter(([name]) => !name.includes('_'));
    for (const [name, schema] of methods.filter((_, at) => turns.includes(at % 10)))
      await Promise.all(
        oddAtEachPlace(resolve(schema)).map(async (params) => {
          const { code, text } = await send(name, params, daemon);
          if (code === -32603) failed.push(`${name} ${JSON.stringify(params)}: ${text}`);
        }),
      );
    assert.deepEqual(failed, []);
  }),
);
