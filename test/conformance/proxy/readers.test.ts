/**
 * Nodes and gateways read JSON differently: some ignore the case of names, some take the first of two members with one name, some the
 * last. For any input, each of them must understand the call that was checked, charged and cached.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { objectMembers } from '../../../src/lib/json.ts';
import { call, post, startBed, until } from './rpc-client.ts';

interface Understood {
  readonly method: unknown;
  readonly params: unknown;
}
type Reader = (body: string) => Understood;

/** How a reader treats members with the same name. */
const reader =
  (isSame: (name: string, wanted: string) => boolean, takes: 'first' | 'last'): Reader =>
  (body) => {
    const bytes = Buffer.from(body);
    const members = objectMembers(bytes) ?? [];
    const value = (wanted: string): unknown => {
      const found = members.filter(({ name }) => isSame(name, wanted));
      const member = takes === 'first' ? found[0] : found.at(-1);
      return member === undefined ? null : JSON.parse(bytes.toString('utf8', member.start, member.end));
    };
    return { method: value('method'), params: value('params') };
  };
const exact = (name: string, wanted: string) => name === wanted;
const anyCase = (name: string, wanted: string) => name.toUpperCase() === wanted.toUpperCase();
const READERS: readonly Reader[] = [
  reader(exact, 'first'),
  reader(exact, 'last'),
  reader(anyCase, 'first'),
  reader(anyCase, 'last'),
];

const METHODS = ['getBlock', 'getSlot', 'getTransaction', 'getAsset'];
const upperCased = fc
  .constantFrom('jsonrpc', 'id', 'method', 'params')
  .chain((name) =>
    fc
      .array(fc.boolean(), { minLength: name.length, maxLength: name.length })
      .map((flags) => [...name].map((c, i) => (flags[i] === true ? c.toUpperCase() : c)).join('')),
  );
const name = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('method', 'params') },
  { weight: 4, arbitrary: upperCased },
  {
    weight: 1,
    arbitrary: fc.constantFrom('param\u017f', 'PARAM\u017f', 'extra', 'constructor', '__proto__', 'result'),
  },
);
const spelled = fc
  .tuple(name, fc.boolean())
  .map(([text, escaped]) =>
    escaped ? `"\\u${text.charCodeAt(0).toString(16).padStart(4, '0')}${text.slice(1)}"` : JSON.stringify(text),
  );
const value = fc.oneof(
  fc.constantFrom(...METHODS).map((method) => JSON.stringify(method)),
  fc.constantFrom(
    '[5]',
    '[6]',
    '[ 5 ]',
    '[5,{}]',
    '[5,{"commitment":"finalized"}]',
    '[5,{"Commitment":"processed"}]',
    '"2.0"',
    '1',
    'null',
    '{}',
  ),
);
const harmless = fc.tuple(fc.constantFrom('"extra"', '"methods"', '"constructor"'), value);
const members = fc.oneof(
  { weight: 4, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.array(harmless, { minLength: 1, maxLength: 1 }) },
  { weight: 2, arbitrary: fc.array(fc.tuple(spelled, value), { minLength: 1, maxLength: 2 }) },
);
/** A whole call, with additional members before, between and after its own. */
const body = fc
  .tuple(
    fc.constantFrom(...METHODS),
    fc.constantFrom('[5]', '[6]', '[5,{"encoding":"json"}]', '[]'),
    members,
    members,
    members,
  )
  .map(([method, params, before, between, behind]) => {
    const list = [
      ...before,
      ['"jsonrpc"', '"2.0"'],
      ['"id"', '1'],
      ...between,
      ['"method"', JSON.stringify(method)],
      ['"params"', params],
      ...behind,
    ];
    return `{${list.map(([key, text]) => `${key}:${text}`).join(',')}}`;
  });

test('each reader understands the call that was checked, and the cache stays correct', async (t) => {
  const bed = await startBed(t);
  let read: Reader = READERS[0]!;
  for (const method of [...METHODS, '*'])
    bed.first.on(method, (seen) => ({
      chunks: [`{"jsonrpc":"2.0","result":${JSON.stringify(read(seen.body))},"id":1}`],
    }));
  bed.first.on('getGenesisHash', { result: '"11111111111111111111111111111112"' });
  await until(
    'the chain is known',
    async () => (await post(bed, call('getGenesisHash'))).headers.get('x-cache') === 'HIT',
  );

  let passed = 0;
  await fc.assert(
    fc.asyncProperty(body, fc.constantFrom(...READERS), fc.boolean(), async (text, one, inBatch) => {
      read = one;
      const { text: answer } = await post(bed, inBatch ? `[${text}]` : text);
      const parsed = JSON.parse(answer) as unknown;
      const { result, error } = (Array.isArray(parsed) ? parsed[0] : parsed) as {
        result?: Understood;
        error?: { code: number };
      };
      if (error !== undefined) {
        assert.ok([-32600, -32602].includes(error.code), `${text} -> ${answer}`);
        return;
      }
      passed += 1;
      // Its own name decides, and a call with a duplicate name was refused.
      const { method, params } = JSON.parse(text) as Understood;
      assert.deepEqual(result, { method, params: params ?? null }, text);
    }),
    { numRuns: 600 },
  );
  assert.ok(passed > 50, `only ${passed} were calls`);

  for (const one of READERS) {
    read = one;
    for (const slot of [5, 6]) {
      const { text, headers } = await post(bed, call('getBlock', [slot]));
      assert.deepEqual((JSON.parse(text) as { result: unknown }).result, { method: 'getBlock', params: [slot] });
      assert.equal(headers.get('x-cache'), 'HIT');
    }
  }
});

test('a member that only a lenient reader would take for one of the four is refused', async (t) => {
  const bed = await startBed(t);
  for (const more of [
    '"Method":"getBlock"',
    '"PARAMS":[1]',
    '"iD":2',
    '"Jsonrpc":"2.0"',
    '"param\u017f":[1]',
    '"\\u004dethod":"x"',
  ]) {
    const { text } = await post(bed, `{"jsonrpc":"2.0","id":1,"method":"getSlot",${more}}`);
    const { error } = JSON.parse(text) as { error?: { code: number; data: { details: string } } };
    assert.equal(error?.code, -32600, text);
    assert.match(error.data.details, /has to be written in lower case/);
  }
  const { text } = await post(bed, '{"jsonrpc":"2.0","id":1,"method":"getSlot","more":{"method":"x"},"methods":1}');
  assert.equal((JSON.parse(text) as { result: number }).result, 1_000);
  assert.equal(bed.first.callsOf('getSlot').at(-1)?.body, '{"jsonrpc":"2.0","id":1,"method":"getSlot"}');
});
