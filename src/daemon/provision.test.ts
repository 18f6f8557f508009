import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from '@sinclair/typebox';
import type { Contribution, HostContext, HostPluginDefinition } from '../plugin/host.ts';
import { API_VERSION, json, serviceToken } from '../plugin/plugin.ts';
import type { Store } from '../ports/store.ts';
import { createLate, createLateStore } from './assemble.ts';
import { mergeContributions, type PluginSurroundings, provisionPlugins } from './provision.ts';

const numbers = serviceToken<{ next(): number }>('test.numbers');
const kernelService = serviceToken<string>('kernel.greeting');

const surroundings = {
  log: { child: () => ({}) },
  metrics: () => ({}),
  services: [{ token: kernelService, service: 'hello' }],
  store: createLateStore(createLate<Store>('the store')),
} as unknown as PluginSurroundings;

function define(
  id: string,
  provision: (ctx: HostContext) => void | Promise<void>,
  more: Partial<HostPluginDefinition> = {},
) {
  const definition: HostPluginDefinition = {
    id,
    apiVersion: API_VERSION,
    summary: id,
    config: Type.Object({}),
    provision,
    ...more,
  };
  return { id, definition, section: { own: id } };
}

test('a plugin sees its own section and the services it uses; offered ones come from plugins before it and from the kernel', async () => {
  const seen: unknown[] = [];
  await provisionPlugins(
    [
      define('first', (ctx) => ctx.provide(numbers, { next: () => 7 }), { offers: [numbers] }),
      define(
        'second',
        async (ctx) => {
          seen.push(ctx.config, ctx.use(numbers)?.next(), ctx.use(kernelService), ctx.use(serviceToken('test.absent')));
        },
        { uses: [numbers, kernelService, serviceToken('test.absent')] },
      ),
    ],
    surroundings,
  );
  assert.deepEqual(seen, [{ own: 'second' }, 7, 'hello', undefined]);
});

test('asking for a service that is not in `uses`, and offering without providing, are refused', async () => {
  const greedy = define('greedy', (ctx) => void ctx.use(numbers));
  await assert.rejects(provisionPlugins([greedy], surroundings), {
    code: 'PLUGIN_SERVICE',
    message: /greedy.*test\.numbers/,
  });
  const liar = define('liar', () => {}, { offers: [numbers] });
  await assert.rejects(provisionPlugins([liar], surroundings), {
    code: 'PLUGIN_SERVICE',
    message: /liar.*test\.numbers/,
  });
  const lacking = define('lacking', () => {}, { offers: [numbers], uses: [serviceToken('test.absent')] });
  assert.equal((await provisionPlugins([lacking], surroundings)).length, 1, 'what it would make of it is not there');
  const stranger = define('stranger', (ctx) => ctx.provide(numbers, { next: () => 1 }));
  await assert.rejects(provisionPlugins([stranger], surroundings), { code: 'PLUGIN_SERVICE' });
});

test('the store cannot be used while plugins are provisioned', async () => {
  const eager = define('eager', async (ctx) => {
    await ctx.store.probe();
  });
  await assert.rejects(provisionPlugins([eager], surroundings), { code: 'PLUGIN_TOO_EARLY' });
});

test('a plugin that throws in provision is named', async () => {
  const broken = define('broken', () => {
    throw new Error('no good');
  });
  await assert.rejects(provisionPlugins([broken], surroundings), {
    code: 'PLUGIN_INVALID',
    exitCode: 78,
    message: 'plugin broken cannot be provisioned: no good',
  });
});

const route = (path: string, method: 'GET' | 'POST' = 'GET') => ({
  method,
  path,
  summary: 's',
  tag: 't',
  auth: 'none' as const,
  errors: 'plain' as const,
  replies: { 200: Type.Object({}) },
  handler: () => json({}),
});
const processor = { name: 'p', version: 1, chains: ['main' as const], apply: async () => {}, revert: async () => {} };
const job = (kind: string) => ({
  kind,
  summary: 's',
  concurrency: 1,
  timeoutMs: 1,
  run: async () => ({ kind: 'done' as const }),
});
const rpc = {
  name: 'getThing',
  summary: 's',
  tag: 't',
  auth: 'none' as const,
  price: { product: 'other' as const, credits: 0, groups: [] },
  params: Type.Unknown(),
  result: Type.Unknown(),
  handler: () => 1,
};
const check = { name: 'c', run: async () => ({ ok: true, detail: '' }) };
const command = { path: ['x', 'y'], summary: 's', options: [], run: async () => {} };

test('a conflict over a part that only one plugin can have names both plugins', () => {
  const twins: readonly [Contribution, Contribution, RegExp][] = [
    [{ routes: [route('/a/:id')] }, { routes: [route('/a/:other')] }, /the route GET \/a\/:/],
    [{ rpc: [rpc] }, { rpc: [rpc] }, /the JSON-RPC method getThing/],
    [{ processors: [processor] }, { processors: [processor] }, /the block processor p/],
    [{ checks: [check] }, { checks: [check] }, /the health check c/],
    [{ commands: [command] }, { commands: [command] }, /the command x y/],
    [{ gate: {} as never }, { gate: {} as never }, /the gate/],
    [{ rpcFallback: {} as never }, { rpcFallback: {} as never }, /the JSON-RPC fallback/],
    [{ sockets: {} as never }, { sockets: {} as never }, /the websockets/],
  ];
  for (const [one, two, what] of twins) {
    const merge = () =>
      mergeContributions([
        { id: 'left', contribution: one },
        { id: 'right', contribution: two },
      ]);
    assert.throws(merge, { code: 'PLUGIN_CONFLICT', exitCode: 78, message: what });
    assert.throws(merge, { message: /left and right/ });
  }
});

test('different methods, admin and open routes, and different jobs live side by side', () => {
  const merged = mergeContributions([
    { id: 'left', contribution: { routes: [route('/a'), route('/a', 'POST')], jobs: [job('left.x')] } },
    { id: 'right', contribution: { routes: [{ ...route('/a'), auth: 'admin' }], jobs: [job('right.x')] } },
  ]);
  assert.equal(merged.routes.length, 3);
  assert.deepEqual(
    merged.jobs.map(({ kind }) => kind),
    ['left.x', 'right.x'],
  );
});

test('a job kind of one plugin cannot take the name of another', () => {
  assert.throws(() => mergeContributions([{ id: 'left', contribution: { jobs: [job('right.x')] } }]), {
    code: 'PLUGIN_INVALID',
  });
  assert.throws(() => mergeContributions([{ id: 'left', contribution: { jobs: [job('left.x'), job('left.x')] } }]), {
    code: 'PLUGIN_CONFLICT',
    message: 'plugin left contributes the job kind left.x twice',
  });
});

test('a route or a method that the daemon cannot use is refused by name', async () => {
  const good = route('/a');
  const routes: readonly (readonly [unknown, RegExp])[] = [
    [{ ...good, replies: undefined }, /^plugin bad: the route GET \/a has no replies/],
    [{ ...good, replies: {} }, /the route GET \/a has no replies/],
    [{ ...good, replies: { ok: Type.Object({}) } }, /the route GET \/a has a wrong reply "ok"/],
    [{ ...good, replies: { 200: 'text' } }, /the route GET \/a has a wrong reply "200"/],
    [{ ...good, path: 'a' }, /the route GET a has a wrong path/],
    [{ ...good, method: 'FETCH' }, /the route FETCH \/a has a wrong method/],
    [{ ...good, auth: 'secret' }, /the route GET \/a has a wrong auth/],
    [{ ...good, errors: undefined }, /the route GET \/a has wrong errors/],
    [{ ...good, tag: undefined }, /the route GET \/a has no tag/],
    [{ ...good, handler: undefined }, /the route GET \/a has no handler/],
    [{ ...good, query: [] }, /the route GET \/a has a wrong query/],
    [{ ...good, params: { type: 'string' } }, /the route GET \/a has a wrong params/],
    [null, /^plugin bad: the route number 2 is not an object/],
  ];
  const methods: readonly (readonly [unknown, RegExp])[] = [
    [{ ...rpc, result: undefined }, /^plugin bad: the JSON-RPC method getThing has no result/],
    [{ ...rpc, params: undefined }, /the JSON-RPC method getThing has no params/],
    [{ ...rpc, price: undefined }, /the JSON-RPC method getThing has no price/],
    [{ ...rpc, name: undefined }, /the JSON-RPC method number 2 has no name/],
  ];
  const refused = async (provision: (ctx: HostContext) => void, message: RegExp) => {
    const bad = define('bad', provision);
    await assert.rejects(provisionPlugins([bad], surroundings), { code: 'PLUGIN_INVALID', exitCode: 78, message });
  };
  for (const [wrong, message] of routes)
    await refused(({ http }) => {
      http.route(route('/good'));
      http.route(wrong as never);
    }, message);
  for (const [wrong, message] of methods)
    await refused((ctx) => {
      ctx.rpc.method({ ...rpc, name: 'getGood' });
      ctx.rpc.method(wrong as never);
    }, message);
});

test('a plugin that returns a value is refused, and the error says how to register parts', async () => {
  const cases: readonly (readonly [unknown, string])[] = [
    [{ routes: [route('/a')], start() {} }, '"routes", "start"'],
    [{}, 'a value of the type object'],
    [null, 'null'],
    [[route('/a')], 'a value of the type object'],
    [() => {}, 'a value of the type function'],
  ];
  for (const [returned, named] of cases) {
    for (const provision of [() => returned, async () => returned]) {
      const bad = define('bad', provision as () => void);
      await assert.rejects(provisionPlugins([bad], surroundings), {
        code: 'PLUGIN_INVALID',
        exitCode: 78,
        message: `plugin bad: provision returned ${named}; a plugin returns nothing and registers its parts through the context, such as ctx.http.route and ctx.onStart`,
      });
    }
  }
});
