/** The document of a daemon with all its plugins, as generators and validators of OpenAPI 3.1 read it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { createCompiler, type Schema } from '../../helpers/schema-values.ts';

interface Media {
  readonly schema: Record<string, unknown>;
}
interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly schema: Record<string, unknown>;
  }[];
  readonly requestBody?: { readonly content: Record<string, Media> };
  readonly responses: Record<string, { readonly description: string; readonly content?: Record<string, Media> }>;
}
interface Document {
  readonly openapi: string;
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly schemas: Record<string, Schema> };
}

const TYPES = new Set(['null', 'boolean', 'object', 'array', 'number', 'string', 'integer']);
/** A path parameter says what it looks like; names are of any form. */
const FREE_FORM = new Set(['getWalletIdentity']);

let daemon: DaemonInProcess;
let document: Document;
let operations: readonly (readonly [string, Operation])[];
before(async () => {
  daemon = await startDaemon({ config: { upstream: { urls: ['http://127.0.0.1:9'] }, follow: { enabled: false } } });
  document = (await (await fetch(`${daemon.apiUrl}/openapi.json`)).json()) as Document;
  operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, operation] as const),
  );
});
after(() => daemon.stop());

test('every schema is one of JSON Schema 2020-12, with the types that there are', () => {
  const visit = (value: unknown, at: string): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, inner] of Object.entries(value)) {
      if (name === 'example' || name === 'examples') continue;
      if (name === 'type' && !at.endsWith('/properties') && !at.includes('securitySchemes'))
        for (const type of [inner].flat()) assert.ok(TYPES.has(type as string), `${at}: type ${String(type)}`);
      visit(inner, `${at}/${name}`);
    }
  };
  visit({ ...document, components: { schemas: document.components.schemas } }, '');
  const { compile } = createCompiler(document, { validateFormats: false });
  for (const [, { requestBody, responses }] of operations)
    for (const media of [requestBody, ...Object.values(responses)].flatMap((part) =>
      Object.values(part?.content ?? {}),
    ))
      compile(media.schema);
});

test('every operation has its own id, every path parameter a form, every body a schema', () => {
  assert.equal(new Set(operations.map(([, { operationId }]) => operationId)).size, operations.length);
  for (const [name, { operationId, parameters = [], requestBody }] of operations) {
    for (const { in: place, schema, name: parameter } of parameters)
      if (place === 'path' && !FREE_FORM.has(operationId))
        assert.ok('format' in schema || 'pattern' in schema, `${name}: ${parameter}`);
    for (const { schema } of Object.values(requestBody?.content ?? {}))
      assert.ok(
        ['type', 'anyOf', 'allOf', 'properties', '$ref'].some((key) => key in schema),
        `${name}: ${JSON.stringify(schema)}`,
      );
  }
  for (const name of ['post /fast', 'post /v0/webhooks', 'post /v1/wallet/batch-identity', 'post /v0/token-metadata'])
    assert.ok(operations.find(([other]) => other === name)?.[1].requestBody !== undefined, name);
});

test('every member of every body is described', async () => {
  const admin = (await (await fetch(`${daemon.adminUrl}/openapi.json`)).json()) as Document;
  const nameless: string[] = [];
  for (const one of [document, admin]) {
    const resolved = (schema: Schema): Schema => {
      const name = /^#\/components\/schemas\/(.+)$/.exec(String(schema['$ref']))?.[1];
      return name === undefined ? schema : { ...one.components.schemas[name], ...schema };
    };
    const visit = (given: unknown, at: string, seen: ReadonlySet<unknown>): void => {
      if (typeof given !== 'object' || given === null || seen.has(given)) return;
      const inside = new Set([...seen, given]);
      const schema = resolved(given as Schema);
      for (const [name, member] of Object.entries((schema['properties'] ?? {}) as Record<string, Schema>)) {
        const { description, not } = resolved(member) as { description?: unknown; not?: object };
        // A member that must not be there is told by its form.
        const isNever = not !== undefined && Object.keys(not).length === 0;
        if (!isNever && (typeof description !== 'string' || description === '')) nameless.push(`${at}.${name}`);
        visit(member, `${at}.${name}`, inside);
      }
      for (const part of [schema['items'], schema['additionalProperties']]) visit(part, at, inside);
      for (const key of ['anyOf', 'oneOf', 'allOf', 'prefixItems'])
        for (const part of (schema[key] ?? []) as readonly Schema[]) visit(part, at, inside);
    };
    for (const [path, methods] of Object.entries(one.paths))
      for (const [method, { requestBody }] of Object.entries(methods))
        for (const { schema } of Object.values(requestBody?.content ?? {}))
          visit(schema, `${method} ${path}`, new Set());
  }
  assert.deepEqual([...new Set(nameless)], []);
});

test('answers without a body have no content; a notification is one of them', () => {
  const remove = document.paths['/v0/webhooks/{webhookID}']?.['delete'];
  assert.deepEqual(Object.keys(remove?.responses['200'] ?? {}), ['description']);
  for (const path of ['/', '/fast'])
    assert.deepEqual(Object.keys(document.paths[path]?.['post']?.responses['204'] ?? {}), ['description'], path);
});

test('calls that are passed on, batches, and results that fit more than one method are within the document', async () => {
  const { compile } = createCompiler(document, { validateFormats: false });
  const { requestBody, responses } = document.paths['/']!['post']!;
  const schemaOf = (content: Record<string, Media> | undefined) => content!['application/json']!.schema;
  const isRequest = compile(schemaOf(requestBody!.content));
  const isAnswer = compile(schemaOf(responses['200']!.content));
  const call = { jsonrpc: '2.0', id: 1 };
  for (const good of [
    { ...call, method: 'getSlot' },
    { ...call, method: 'getCompressedAccountProof', params: { hash: '11111111111111111111111111111111' } },
    [
      { ...call, method: 'getSlot' },
      { jsonrpc: '2.0', method: 'getHealth', params: [] },
    ],
  ])
    assert.ok(isRequest(good), JSON.stringify(good));
  for (const bad of [{ ...call }, { ...call, method: 'getCompressedAccountProof', params: { hash: 5 } }, 'x', []])
    assert.ok(!isRequest(bad), JSON.stringify(bad));
  const empty = { context: { slot: 1 }, value: { items: [] } };
  for (const good of [
    { ...call, result: 5 },
    { ...call, result: empty },
    { ...call, error: { code: -32007, message: 'x' } },
  ])
    assert.ok(isAnswer(good), JSON.stringify(good));
  assert.ok(!isAnswer({ ...call, error: 'x' }));
});
