/** The documents of both listeners: valid, complete, with an example of each body and answer, and as linters of OpenAPI want them. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import metaSchema from '@open-rpc/meta-schema';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { type RulesetDefinition, Spectral } from '@stoplight/spectral-core';
import { oas } from '@stoplight/spectral-rulesets';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';

type Json = Readonly<Record<string, unknown>>;

interface Media {
  readonly schema: Json;
  readonly example?: unknown;
}
interface Answer {
  readonly description: string;
  readonly content?: Record<string, Media>;
}
interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly security: readonly object[];
  readonly parameters: readonly { readonly name: string; readonly description: string; readonly schema: Json }[];
  readonly requestBody?: Answer;
  readonly responses: Record<string, Answer>;
}
interface Document {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly components: { readonly schemas: Record<string, Json> };
}
interface RpcDocument {
  readonly methods: readonly {
    readonly name: string;
    readonly summary: string;
    readonly params: readonly { readonly name: string; readonly schema: Json; readonly description?: string }[];
    readonly result: { readonly schema: Json };
    readonly examples: readonly {
      readonly params: readonly { value: unknown }[];
      readonly result: { value: unknown };
    }[];
    readonly 'x-params'?: Json;
    readonly 'x-aliases'?: readonly string[];
  }[];
  readonly components: { readonly schemas: Record<string, Json> };
}

const PLUGINS = [
  'access',
  'accounts',
  'compression',
  'das',
  'dashboard',
  'enhanced',
  'fees',
  'history',
  'parsed',
  'prices',
  'proxy',
  'sender',
  'signup',
  'token-metadata',
  'wallet',
  'webhooks',
];
const SIGNUP = { treasury: '86xCnPeV69n6t3DnyGvkKobf9FdN2H9oiVDdaMpo2MMY', lamports: 1_000_000, plan: 'free' };

let daemon: DaemonInProcess;
before(async () => {
  daemon = await startDaemon({ config: { plugins: PLUGINS, signup: SIGNUP, follow: { enabled: false } } });
});
after(() => daemon.stop());

/** Checks keep the thread busy for longer than the daemon keeps an idle connection. */
const read = async <T>(url: string): Promise<T> =>
  (await (await fetch(url, { headers: { connection: 'close' } })).json()) as T;
const LISTENERS = ['api', 'admin'] as const;
const documentOf = (listener: (typeof LISTENERS)[number]) =>
  read<Document>(`${listener === 'api' ? daemon.apiUrl : daemon.adminUrl}/openapi.json`);
const operationsOf = ({ paths }: Document) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, operation] as const),
  );
/** Its texts belong to the dashboard, which describes its routes for its own pages only. */
const isOwn = (name: string) => !name.includes(' /dashboard');

function compiler({ components }: { readonly components: { readonly schemas: Record<string, Json> } }) {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  const text = JSON.stringify({ $id: 'document', components }).replaceAll('"#/components', '"document#/components');
  ajv.addSchema(JSON.parse(text) as object);
  return (schema: Json) => {
    const inDocument = JSON.stringify(schema).replaceAll('"#/components', '"document#/components');
    const check = ajv.compile(JSON.parse(inDocument) as object);
    return (value: unknown) => (check(value) ? null : ajv.errorsText(check.errors));
  };
}

/** Members that have no example of their own show a made-up one. */
function placeholders(value: unknown, at = ''): string[] {
  if (value === 'text') return [at];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => placeholders(inner, `${at}.${name}`));
}

/** Members without a description. */
function undescribed(schema: unknown, at = ''): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties, items, anyOf } = schema as Record<string, unknown>;
  const members = Object.entries((properties ?? {}) as Record<string, Json>).flatMap(([name, inner]) => {
    const says = [inner, ...((inner['anyOf'] ?? []) as Json[])].some((one) =>
      ['description', '$ref', 'const', 'not'].some((key) => key in one),
    );
    return [...(says ? [] : [`${at}.${name}`]), ...undescribed(inner, `${at}.${name}`)];
  });
  const more = [items, ...((anyOf ?? []) as unknown[])].flatMap((inner) => undescribed(inner, at));
  return [...members, ...more];
}

for (const listener of LISTENERS) {
  test(`${listener}: redocly finds nothing, not even to warn of`, async () => {
    const source = JSON.stringify(await documentOf(listener));
    const config = await createConfig({ extends: ['recommended'] });
    const problems = await lintFromString({ source, absoluteRef: `/${listener}.json`, config });
    assert.deepEqual(
      problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`),
      [],
    );
  });

  test(`${listener}: each body, answer and parameter has a schema, a description and an example that is valid`, async () => {
    const document = await documentOf(listener);
    const compile = compiler(document);
    const names = new Set(document.tags.map(({ name }) => name));
    const gaps: string[] = [];
    for (const [name, { responses, requestBody, parameters, security, tags, ...texts }] of operationsOf(document)) {
      assert.ok(Array.isArray(security), name);
      assert.ok(tags.length === 1 && names.has(tags[0] ?? ''), name);
      assert.ok(texts.summary !== '' && texts.description !== '', name);
      for (const { name: parameter, description } of parameters) assert.ok(description, `${name}: ${parameter}`);
      for (const [status, { description, content = {} }] of [
        ...Object.entries(responses),
        ...(requestBody === undefined ? [] : [['body', requestBody] as const]),
      ]) {
        assert.ok(description !== '' && description !== 'Answer', `${name} ${status}`);
        for (const [type, { schema, example }] of Object.entries(content)) {
          if (!type.endsWith('json')) continue;
          assert.notEqual(example, undefined, `${name} ${status}`);
          assert.equal(compile(schema)(example), null, `${name} ${status}: ${JSON.stringify(example)}`);
          if (!isOwn(name)) continue;
          gaps.push(...placeholders(example).map((at) => `${name} ${status}${at}: no example`));
          if (name !== 'post /')
            gaps.push(...undescribed(schema).map((at) => `${name} ${status}${at}: no description`));
        }
      }
    }
    for (const [name, schema] of Object.entries(document.components.schemas))
      if (listener === 'api') gaps.push(...undescribed(schema).map((at) => `${name}${at}: no description`));
    assert.deepEqual(gaps, []);
  });
}

test('all components are used, and no tag is in two spellings', async () => {
  for (const listener of LISTENERS) {
    const document = await documentOf(listener);
    const text = JSON.stringify(document);
    for (const name of Object.keys(document.components.schemas))
      assert.ok(text.includes(`"#/components/schemas/${name}"`), name);
    const tags = document.tags.map(({ name }) => name);
    assert.equal(new Set(tags.map((tag) => tag.toLowerCase())).size, tags.length);
    for (const tag of tags) assert.match(tag, /^[A-Z]/);
    for (const [, { tags: used }] of operationsOf(document)) assert.ok(tags.includes(used[0] ?? ''));
  }
});

test('the OpenRPC document is one, describes all methods of the service, and its examples are valid', async () => {
  const document = await read<RpcDocument>(`${daemon.apiUrl}/openrpc.json`);
  const ajv = new Ajv({ strict: false, validateFormats: false });
  const { $id: _, ...schema } = metaSchema as unknown as Record<string, unknown>;
  const check = ajv.compile(schema);
  assert.ok(check(document), ajv.errorsText(check.errors));
  const names = document.methods.flatMap(({ name, 'x-aliases': aliases = [] }) => [name, ...aliases]);
  assert.equal(new Set(names).size, names.length);
  const { 'x-rpc': own } = await read<{ 'x-rpc': Record<string, object> }>(`${daemon.apiUrl}/openapi.json`);
  for (const name of [...Object.keys(own), 'getAccountInfo', 'sendTransaction', 'logsSubscribe', 'sendBundle'])
    assert.ok(names.includes(name), name);
  const compile = compiler(document);
  const gaps: string[] = [];
  for (const method of document.methods) {
    const where = method.name;
    const [example] = method.examples;
    assert.ok(method.summary !== '' && example !== undefined, where);
    assert.equal(compile(method.result.schema)(example.result.value), null, `${where}: ${JSON.stringify(example)}`);
    gaps.push(...placeholders(example).map((at) => `${where}${at}: no example`));
    gaps.push(...undescribed(method.result.schema).map((at) => `${where} result${at}: no description`));
    for (const { name, schema, description } of method.params) {
      if (description === undefined && schema['anyOf'] === undefined) gaps.push(`${where} ${name}: no description`);
      assert.doesNotMatch(name, /params\[/, where);
    }
  }
  assert.deepEqual(gaps, []);
});

for (const listener of LISTENERS)
  test(`${listener}: spectral finds nothing`, async () => {
    const linter = new Spectral();
    // Its own type leaves out what it does not need.
    linter.setRuleset({ extends: [[oas as unknown as RulesetDefinition, 'recommended']] });
    const found = await linter.run(JSON.stringify(await documentOf(listener)));
    assert.deepEqual(
      found.map(({ code, message, path }) => `${code}: ${message} ${path.join('.')}`),
      [],
    );
  });
