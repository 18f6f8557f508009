/** The packages that are made from the documents: the same bytes each time, all calls in each language, names that the language takes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownDocuments } from '../../../packaging/sdk/documents.ts';
import { type Documents, modelOf } from '../../../packaging/sdk/model.ts';
import { sdkFiles } from '../../../packaging/sdk/packages.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

const root = findProjectRoot();
const documents = await ownDocuments(root);
const files = sdkFiles(documents, { root });

const snake = (name: string) =>
  name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .toLowerCase();
const capital = (name: string) => name.charAt(0).toUpperCase() + name.slice(1);

interface Language {
  /** File with the calls. */
  readonly api: string;
  /** Definitions of routes and of methods, with the name as the first and the parameters as the second group. */
  readonly routes: RegExp;
  readonly methods: RegExp;
  readonly parameter: RegExp;
  readonly spelling: (name: string) => string;
  readonly reserved: readonly string[];
}

/** In Python and TypeScript both are in classes, told apart by what they call. */
const LANGUAGES: Readonly<Record<string, Language>> = {
  typescript: {
    api: 'typescript/index.d.ts',
    routes: /^export declare class Parhelion [\s\S]*?^}/m,
    methods: /^export declare class Rpc [\s\S]*?^}/m,
    parameter: /(\w+)\??: /g,
    spelling: (name) => name,
    reserved: ['with', 'interface', 'default', 'in', 'class', 'function'],
  },
  python: {
    api: 'python/parhelion_sdk/api.py',
    routes: /^class Parhelion[\s\S]*/m,
    methods: /^class Rpc[\s\S]*?(?=^class )/m,
    parameter: /^ {8}(\w+): /gm,
    spelling: snake,
    reserved: ['with', 'from', 'in', 'class', 'lambda', 'None'],
  },
  go: {
    api: 'go/api.go',
    routes: /^func \(c \*Client\) [\s\S]*?(?=^\/\/ \w+: [^\n]*\nfunc \(r )/m,
    methods: /^func \(r \*RPC\) [\s\S]*/m,
    parameter: /[(,] ?(\w+) [\w.*[\]]+/g,
    spelling: capital,
    reserved: ['type', 'range', 'func', 'interface', 'map'],
  },
  rust: {
    api: 'rust/src/api.rs',
    routes: /^impl Client [\s\S]*?^}/m,
    methods: /^impl Rpc[\s\S]*?^}/m,
    parameter: /[(,] ?((?:r#)?\w+): /g,
    spelling: snake,
    reserved: ['type', 'in', 'fn', 'match', 'self'],
  },
};
const DEFINITION: Readonly<Record<string, RegExp>> = {
  typescript: /^ {4}(\w+)(\([^\n]*\)): Promise</gm,
  python: /^ {4}def ([a-z]\w*)(\([\s\S]*?\)) ->/gm,
  go: /^func \(\w \*\w+\) (\w+)(\([^\n]*?\)) [^\n]*\{$/gm,
  rust: /^ {4}pub fn ([\w#]+)(\([^\n]*?\)) ->/gm,
};

function definitionsIn(language: string, part: 'routes' | 'methods') {
  const { api, [part]: where } = LANGUAGES[language]!;
  const [section = ''] = where.exec(files.get(api)!) ?? [];
  const found = [...section.matchAll(DEFINITION[language]!)].map(([, name, takes]) => ({ name: name!, takes: takes! }));
  return found.filter(({ name }) => name !== 'rpc');
}

/** What the documents say, without the code that makes the packages. */
const LEFT_OUT = ['Documentation', 'Agents'];
const operationIds = Object.entries(documents.openapi.paths).flatMap(([path, methods]) =>
  Object.values(methods)
    .filter(({ tags }) => path !== '/' && !tags.some((tag) => LEFT_OUT.includes(tag)))
    .map(({ operationId }) => operationId),
);
const methodNames = documents.openrpc.methods
  .filter((method) => method['x-transport'] !== 'websocket')
  .map(({ name }) => name);

test('the same documents give the same bytes, but for the version of the release', () => {
  const own = documents.openapi.info.version;
  const copy = JSON.parse(JSON.stringify(documents)) as Documents;
  const released = sdkFiles(copy, { root, version: '3.2.1' });
  const versioned = ['typescript/package.json', 'rust/Cargo.toml', 'python/README.md', 'go/README.md'];
  for (const name of versioned) assert.match(released.get(name)!, /3\.2\.1/, name);
  for (const name of versioned) assert.ok(files.get(name)!.includes(own), name);
  assert.deepEqual([...files.keys()], [...released.keys()]);
  for (const [name, text] of released) assert.equal(text.replaceAll('3.2.1', own), files.get(name), name);
});

for (const [language, { spelling, parameter, reserved }] of Object.entries(LANGUAGES))
  test(`${language}: every route and every method is there, under its name`, () => {
    assert.ok(operationIds.length > 30 && methodNames.length > 80, `${operationIds.length} ${methodNames.length}`);
    const routes = definitionsIn(language, 'routes');
    const methods = definitionsIn(language, 'methods');
    const sorted = (names: readonly string[]) => names.map(spelling).sort();
    assert.deepEqual(routes.map(({ name }) => name).sort(), sorted(operationIds));
    assert.deepEqual(methods.map(({ name }) => name).sort(), sorted(methodNames));
    for (const { name, takes } of [...routes, ...methods]) {
      const names = [...takes.matchAll(parameter)].map(([, one]) => one!);
      assert.equal(new Set(names).size, names.length, `${name}${takes}`);
      assert.deepEqual(
        names.filter((one) => reserved.includes(one)),
        [],
        name,
      );
    }
  });

test('types have different names, and their members too', () => {
  const { types } = modelOf(documents);
  assert.ok(types.length > 100, String(types.length));
  assert.equal(new Set(types.map(({ name }) => name)).size, types.length);
  for (const { name, members } of types) {
    assert.match(name, /^[A-Z][A-Za-z0-9]*$/);
    assert.equal(new Set(members.map((member) => member.name)).size, members.length, name);
  }
  // A member of a struct is told by its name in the language.
  for (const [path, struct, member] of [
    ['go/api.go', /^type (\w+) struct \{\n([\s\S]*?)^\}/gm, /^\t([A-Z]\w*) /gm],
    ['rust/src/types.rs', /^pub struct (\w+) \{\n([\s\S]*?)^\}/gm, /^ {4}pub ([\w#]+): /gm],
  ] as const) {
    const structs = [...files.get(path)!.matchAll(struct)];
    assert.equal(structs.length, types.length, path);
    assert.equal(new Set(structs.map(([, name]) => name)).size, types.length, path);
    for (const [, name, body] of structs) {
      const names = [...body!.matchAll(member)].map(([, one]) => one!);
      assert.equal(
        names.length,
        types.find((type) => type.name.toLowerCase() === name!.toLowerCase())?.members.length ?? names.length,
      );
      assert.equal(new Set(names).size, names.length, name);
    }
  }
});

test('names that a language cannot have are changed, and stay what they are in JSON', () => {
  const text = { type: 'string', description: 'A text' };
  const members = { 'a-b': text, a_b: text, from: text, type: text, '2fa': text, with: text, self: text };
  const openapi = {
    info: { version: '1.0.0' },
    paths: {
      '/v0/things/{class}': {
        get: {
          operationId: 'getThing',
          summary: 'A "thing" */ of [one]',
          tags: ['Things'],
          security: [],
          parameters: [
            { name: 'class', in: 'path', required: true, schema: text },
            ...Object.keys(members).map((name) => ({ name, in: 'query', required: false, schema: text })),
          ],
          responses: {
            200: {
              content: { 'application/json': { schema: { type: 'object', properties: members, required: ['from'] } } },
            },
          },
        },
      },
    },
    components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Api-Key' } } },
  };
  const params = Object.entries(members).map(([name, schema]) => ({ name, required: false, schema }));
  const result = { schema: { type: 'null' } };
  const method = { name: 'do.it', summary: 'Does it', paramStructure: 'by-position' as const, params, result };
  const awkward = sdkFiles({ openapi, openrpc: { methods: [method] } }, { root });
  const typescript = awkward.get('typescript/index.js')!;
  assert.match(typescript, /getThing\(class2, query, call\)/);
  assert.match(typescript, /doIt\(aB, aB2, from, type, n2fa, with2, self, call\)/);
  const python = awkward.get('python/parhelion_sdk/api.py')!;
  assert.match(
    python,
    /"a-b": a_b, "a_b": a_b2, "from": from_, "type": type, "2fa": n2fa, "with": with_, "self": self2/,
  );
  assert.match(
    awkward.get('python/parhelion_sdk/types.py')!,
    /"from": "str",\n[^\n]*\n\s+"type": "NotRequired\[str\]"/,
  );
  const go = awkward.get('go/api.go')!;
  assert.match(
    go,
    /AB \*string `json:"a-b,omitempty"`[\s\S]*AB2 \*string `json:"a_b,omitempty"`[\s\S]*From string `json:"from"`/,
  );
  const rust = awkward.get('rust/src/types.rs')!;
  assert.match(
    rust,
    /rename = "a-b"[^\n]*\n\s+pub a_b: Option<String>[\s\S]*pub a_b2: [\s\S]*pub r#type: [\s\S]*pub self_: /,
  );
});

test('integers of 64 bits are told from others', () => {
  const types = new Map(modelOf(documents).types.map(({ name, members }) => [name, members]));
  const shapeOf = (type: string, member: string) => types.get(type)?.find(({ name }) => name === member)?.shape;
  assert.deepEqual(shapeOf('RpcAccount', 'lamports'), { kind: 'integer', isLong: true, isSigned: false });
  assert.deepEqual(shapeOf('RpcAccount', 'rentEpoch'), { kind: 'integer', isLong: true, isSigned: false });
  assert.deepEqual(shapeOf('RpcContext', 'slot'), { kind: 'integer', isLong: false, isSigned: false });
  const declared = files.get('typescript/index.d.ts')!;
  assert.match(declared, /interface RpcAccount \{[^}]*lamports: Uint64;/);
  assert.match(files.get('go/api.go')!, /type RpcAccount struct \{[^}]*Lamports uint64 /);
  assert.match(files.get('rust/src/types.rs')!, /pub struct RpcAccount \{[^}]*pub lamports: u64,/);
});
