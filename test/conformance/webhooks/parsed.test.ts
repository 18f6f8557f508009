/** Webhooks of type parsed: their filters, what is refused, forks, replays, kills, batches, and interfaces that cannot be read. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createParsedTransactions } from '../../../plugins/parsed/board.ts';
import { CostlyInterface } from '../../../plugins/parsed/costs.ts';
import type { Learned } from '../../../plugins/parsed/interfaces/index.ts';
import { decode } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/plugin/plugin.ts';
import { readIdl } from '../../../src/solana/idl/read-idl.ts';
import { createWords } from '../../../src/solana/parsers/parser.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { addressOf, makeBlock, signatureOf } from './blocks.ts';
import type { HarnessOptions } from './harness.ts';
import { patient, stage } from './stage.ts';

/** Of `makeBlock`: a program with one instruction, called by the fee payer. */
const PROGRAM = addressOf(4_000_000_002);
const PAYER = addressOf(4_000_000_000);
const DATA = [...decode('3Bxs4h24hBtQy9rw')!];

const idl = (name: string, args: readonly object[] = []) =>
  readIdl(
    JSON.stringify({
      metadata: { name: 'counter' },
      address: PROGRAM,
      instructions: [{ name, discriminator: DATA.slice(0, 8), accounts: [{ name: 'authority' }], args }],
    }),
  )!;

interface Shape {
  readonly transaction: { readonly signature: string; readonly slot: number; readonly status: string };
  readonly instructions: {
    readonly instructionName: string | null;
    readonly decoded: object | null;
    readonly rawData?: string;
  }[];
  readonly matchedIndexes?: readonly number[];
}

eachStore('parsed webhooks', (engine) => {
  /** With interfaces that can be read or not. `mine` is what the project has uploaded. */
  async function start(t: TestContext, options: Partial<HarnessOptions> = {}) {
    const state = {
      isDown: false,
      mine: null as string | null,
      args: [] as readonly object[],
      isCostly: false,
      reads: 0,
      live: [] as number[],
    };
    const costly = () => {
      throw new CostlyInterface(PROGRAM);
    };
    const learnedOf = (name: string): Learned => ({
      find: (program) => (program === PROGRAM ? idl(name, state.args) : null),
      versionsOf: () => [],
      with: () =>
        state.isCostly
          ? { ...learnedOf(state.mine!), find: () => ({ ...idl(state.mine!), decode: costly, callOf: costly }) }
          : learnedOf(state.mine!),
    });
    const makeParsed = () =>
      createParsedTransactions({
        interfaces: {
          async learn() {
            state.reads += 1;
            if (state.isDown) throw new CodedError('UPSTREAM_TIMEOUT', 'the upstream did not answer');
            return learnedOf('increment');
          },
          follow: ({ slot }) => void state.live.push(slot),
        },
        ownOf: async () => (state.mine === null ? null : new Map()),
        words: createWords(null),
        random: { bytes: (count: number) => new Uint8Array(count) } as never,
      });
    const store = options.store ?? (await engine.store(t));
    const it = await stage(t, { ...patient, ...options, store, parsed: makeParsed() });
    return {
      ...it,
      store,
      state,
      makeParsed,
      create: (filter: object, more: object = {}) =>
        it.create({ webhookType: 'parsed', accountAddresses: [], parsedFilter: filter, ...more }),
    };
  }

  const elements = (bodies: readonly { body: Buffer }[]): Shape[] =>
    bodies.flatMap(({ body }) => JSON.parse(body.toString()) as Shape[]);

  test('an event is what a subscription with the filter gets; filters decide, also failed ones and own interfaces', async (t) => {
    const it = await start(t);
    const hooks = {
      program: await it.create({ programs: [PROGRAM] }),
      equal: await it.create({ programs: [PROGRAM], accounts: { include: [PAYER], roles: { authority: PAYER } } }),
      name: await it.create({ programs: [PROGRAM], instructionNames: ['Increment'] }, { parsedDetails: 'matched' }),
      failed: await it.create({ accounts: { include: [PAYER] }, includeFailed: true }, { parsedDetails: 'raw' }),
      onlyFailed: await it.create({ programs: [PROGRAM], includeFailed: true }, { txnStatus: 'failed' }),
      otherName: await it.create({ programs: [PROGRAM], instructionNames: ['decrement'] }),
      otherProgram: await it.create({ programs: [addressOf(5)] }),
      off: await it.create({ programs: [PROGRAM] }, { active: false }),
    };
    const transactions = [{ name: 'good' }, { name: 'bad', failed: true }];
    await it.apply(makeBlock({ slot: 10, transactions }));
    const [good, bad] = [signatureOf('good'), signatureOf('bad')];
    const got = async (name: keyof typeof hooks) =>
      (await it.deliveries(hooks[name].webhookID)).map(({ signature }) => signature).sort();
    const all = Object.fromEntries(
      await Promise.all((Object.keys(hooks) as (keyof typeof hooks)[]).map(async (name) => [name, await got(name)])),
    );
    assert.deepEqual(all, {
      program: [good],
      equal: [good],
      name: [good],
      failed: [good, bad].sort(),
      onlyFailed: [bad],
      otherName: [],
      otherProgram: [],
      off: [],
    });
    await it.finished(hooks.program.webhookID);
    const body = async (name: keyof typeof hooks) => {
      const [first] = await it.deliveries(hooks[name].webhookID);
      const { body } = await it.call('GET', `/v0/webhooks/${hooks[name].webhookID}/deliveries/${first!.deliveryId}`);
      return body.body as Shape[];
    };
    const [full] = await body('program');
    assert.deepEqual([full!.transaction.slot, full!.transaction.status, full!.matchedIndexes], [10, 'ok', [0]]);
    assert.deepEqual(
      full!.instructions.map(({ instructionName, decoded }) => [instructionName, decoded]),
      [['increment', { args: {}, accounts: [{ name: 'authority', pubkey: PAYER, isSigner: true, isWritable: true }] }]],
    );
    // Equal texts are stored once.
    const rows = await it.store.read.selectFrom('webhook_elements').select(['form', 'signature']).execute();
    assert.equal(rows.filter(({ signature }) => signature === good).length, 3);
    assert.ok(rows.every(({ form }) => /^parsed\/[0-9a-f]{32}$/.test(String(form))));
    assert.equal((await body('name'))[0]!.matchedIndexes, undefined);
    assert.deepEqual(Object.keys((await body('failed'))[0]!.transaction).includes('accountKeys'), false);

    // An interface that the project has uploaded counts for its webhooks.
    it.state.mine = 'decrement';
    await it.apply(makeBlock({ slot: 11, transactions: [{ name: 'own' }] }));
    assert.deepEqual([await got('name'), await got('otherName')], [[good], [signatureOf('own')]]);
    // Blocks that follow each other are followed by the interfaces too.
    assert.deepEqual(it.state.live, [10, 11]);
  });

  test('members that have no meaning are refused in words; whole objects can be sent back', async (t) => {
    const it = await start(t, { deliver: false });
    const good = { webhookURL: 'http://127.0.0.1:9/', webhookType: 'parsed', parsedFilter: { programs: [PROGRAM] } };
    const refused = async (patch: object, path = '', method = 'POST') => {
      const { status, body } = await it.call(
        method,
        `/v0/webhooks${path}`,
        path === '' ? { ...good, ...patch } : patch,
      );
      assert.equal(status, 400, JSON.stringify(body));
      return body.error as string;
    };
    const cases: readonly [object, RegExp][] = [
      [{ parsedFilter: undefined }, /^parsedFilter is required/],
      [{ parsedFilter: {} }, /^parsedFilter: the filter must have `programs` or `accounts.include`$/],
      [{ parsedFilter: { programs: ['x'] } }, /^parsedFilter: invalid pubkey at programs\[0\]$/],
      [{ parsedFilter: { programs: [PROGRAM], more: 1 } }, /^parsedFilter: unknown field `more`/],
      [{ parsedFilter: { programs: Array(11).fill(PROGRAM) } }, /^parsedFilter: at most 10 programs, got 11$/],
      [{ parsedFilter: [] }, /^parsedFilter: filter must be an object$/],
      [{ parsedDetails: 'some' }, /^parsedDetails: must be one of full, matched, raw$/],
      [{ accountAddresses: [PAYER] }, /^accountAddresses must be empty.*parsedFilter\.accounts\.include$/],
      [{ transactionTypes: ['SWAP'] }, /^transactionTypes must be ANY.*parsedFilter\.instructionNames$/],
      [{ txnStatus: 'failed' }, /^txnStatus: failed transactions need parsedFilter\.includeFailed$/],
      [{ webhookType: 'raw' }, /^parsedFilter and parsedDetails are only for webhooks of type parsed$/],
      [{ webhookType: undefined }, /^parsedFilter and parsedDetails are only/],
    ];
    for (const [patch, message] of cases) assert.match(await refused(patch), message);

    const { body: made } = await it.call('POST', '/v0/webhooks', good);
    const { webhookID, signingSecret: _, ...view } = made;
    const accounts = { include: [], roles: {} };
    const filter = { programs: [PROGRAM], instructionNames: [], accounts, includeFailed: false, includeCpi: true };
    assert.deepEqual([view.parsedFilter, view.parsedDetails, view.txnStatus], [filter, 'full', 'success']);
    const path = `/v0/webhooks/${webhookID}`;
    const edit = async (patch: object) => {
      const { status, body } = await it.call('PUT', path, patch);
      assert.equal(status, 200, JSON.stringify(body));
      return body;
    };
    // The status that was shown is no choice: the filter still decides.
    const changed = await edit({ ...view, parsedFilter: { ...filter, includeFailed: true } });
    assert.deepEqual([changed.parsedFilter.includeFailed, changed.txnStatus], [true, 'all']);
    assert.equal((await edit({ parsedDetails: 'raw' })).parsedFilter.includeFailed, true);
    assert.match(
      await refused({ accountAddresses: [PAYER] }, `/${webhookID}`, 'PUT'),
      /^accountAddresses must be empty/,
    );
    assert.match(
      await refused({ accountAddresses: [PAYER] }, `/${webhookID}/addresses`),
      /^a webhook of type parsed has no addresses/,
    );

    // From one type to another, and back.
    const raw = await edit({ webhookType: 'raw', accountAddresses: [PAYER] });
    assert.deepEqual([raw.webhookType, 'parsedFilter' in raw, raw.txnStatus], ['raw', false, 'all']);
    const back = { webhookType: 'parsed', parsedFilter: { programs: [PROGRAM] } };
    assert.match(await refused(back, `/${webhookID}`, 'PUT'), /^accountAddresses must be empty/);
    await edit({ ...back, accountAddresses: [] });
    await it.apply(makeBlock({ slot: 10, transactions: [{ name: 'a' }] }));
    assert.equal((await it.deliveries(webhookID)).length, 1);
    await it.call('DELETE', path);
    await it.apply(makeBlock({ slot: 11, transactions: [{ name: 'b' }] }));
    const rows = await it.store.read.selectFrom('outbox').select('slot').execute();
    assert.deepEqual(rows, [{ slot: 10 }]);
  });

  test('forks, replays and another process: one delivery for each transaction, at its place', async (t) => {
    const it = await start(t, { deliver: false });
    const { webhookID } = await it.create({ programs: [PROGRAM] });
    const first = makeBlock({ slot: 10, fork: 'a', transactions: [{ name: 'stays' }, { name: 'goes' }] });
    await it.apply(first);
    await it.revert(first);
    await it.apply(makeBlock({ slot: 10, fork: 'b', transactions: [{ name: 'stays' }] }));
    // Given again, as after a write whose answer was lost.
    await it.apply(makeBlock({ slot: 10, fork: 'b', transactions: [{ name: 'stays' }] }));
    // Those of the fork are discarded.
    const shown = async () =>
      (await it.deliveries(webhookID)).filter(({ status }) => status === 'pending').map(({ signature }) => signature);
    assert.deepEqual(await shown(), [signatureOf('stays')]);

    // A process that was killed between the two: nothing that it remembers is needed.
    const other = await start(t, { deliver: false, store: it.store });
    const missed = makeBlock({ slot: 11, transactions: [{ name: 'later' }] });
    await other.apply(missed);
    assert.equal((await shown()).length, 2);

    // A replay delivers what is missing, only for the webhook that asked for it.
    const late = await other.create({ programs: [PROGRAM] });
    const replay = await other.call('POST', `/v0/webhooks/${late.webhookID}/replay`, { fromSlot: 10, toSlot: 11 });
    assert.equal(replay.status, 202, JSON.stringify(replay.body));
    await other.replay(makeBlock({ slot: 10, fork: 'b', transactions: [{ name: 'stays' }] }));
    await other.replay(missed);
    assert.equal((await other.deliveries(late.webhookID)).length, 2);
    assert.equal((await shown()).length, 2);
    await other.replay(makeBlock({ slot: 12, transactions: [{ name: 'outside' }] }));
    assert.equal((await other.deliveries(late.webhookID)).length, 2);
  });

  test('while interfaces cannot be read the chain goes on, and what may have been wanted is a missed range', async (t) => {
    const clock = createManualClock();
    const it = await start(t, { deliver: false, clock });
    const wanted = await it.create({ programs: [PROGRAM], instructionNames: ['increment'] });
    const other = await it.create({ programs: [addressOf(5)] });
    it.state.isDown = true;
    const block = makeBlock({ slot: 10, transactions: [{ name: 'a' }, { name: 'b' }] });
    await clock.passWhile(it.apply(block), 'the block is applied');
    assert.equal(it.state.reads, 3);
    // From then on once for each block.
    await it.apply(makeBlock({ slot: 11, transactions: [{ name: 'c' }] }));
    assert.equal(it.state.reads, 4);
    const missedOf = async (id: string) =>
      (await it.call('GET', `/v0/webhooks/${id}/deliveries`)).body.missed.map(
        ({ fromSlot, toSlot, events, reason }: Record<string, unknown>) => [fromSlot, toSlot, events, reason],
      );
    assert.deepEqual(await missedOf(wanted.webhookID), [[10, 11, 3, 'interfaces_unread']]);
    assert.deepEqual(await missedOf(other.webhookID), []);
    assert.deepEqual(await it.deliveries(wanted.webhookID), []);
    // A block of the past waits instead: nothing is lost by it.
    await assert.rejects(it.apply(makeBlock({ slot: 9, transactions: [{ name: 'd' }] })), /did not answer/);
    it.state.isDown = false;
    await it.apply(makeBlock({ slot: 12, transactions: [{ name: 'e' }] }));
    assert.equal((await it.deliveries(wanted.webhookID)).length, 1);
    await it.call('POST', `/v0/webhooks/${wanted.webhookID}/replay`, { fromSlot: 10, toSlot: 11 });
    await it.replay(block);
    assert.equal((await it.deliveries(wanted.webhookID)).length, 3);
  });

  test('an instruction whose arguments do not fit its interface is delivered by its name, with its data as they are', async (t) => {
    const it = await start(t);
    it.state.args = [{ name: 'amount', type: 'u64' }];
    const hooks = [
      await it.create({ programs: [PROGRAM], instructionNames: ['increment'] }),
      await it.create({ programs: [PROGRAM], accounts: { include: [], roles: { authority: PAYER } } }),
      await it.create({ programs: [PROGRAM], instructionNames: ['decrement'] }),
    ];
    await it.apply(makeBlock({ slot: 10, transactions: [{ name: 'misfit' }] }));
    const counts = await Promise.all(hooks.map(async ({ webhookID }) => (await it.deliveries(webhookID)).length));
    assert.deepEqual(counts, [1, 1, 0]);
    const [{ webhookID }] = hooks as [(typeof hooks)[0]];
    await it.finished(webhookID);
    const [delivery] = await it.deliveries(webhookID);
    const { body } = await it.call('GET', `/v0/webhooks/${webhookID}/deliveries/${delivery!.deliveryId}`);
    const [element] = body.body as Shape[];
    assert.deepEqual(
      element!.instructions.map(({ instructionName, decoded, rawData }) => [instructionName, decoded, rawData]),
      [[null, null, '3Bxs4h24hBtQy9rw']],
    );
    assert.deepEqual(element!.matchedIndexes, [0]);
  });

  test('an interface of the project that takes too long leaves a missed range of its webhooks, and the chain goes on', async (t) => {
    const it = await start(t, { deliver: false });
    it.state.mine = 'increment';
    it.state.isCostly = true;
    const wanted = await it.create({ programs: [PROGRAM], instructionNames: ['increment'] });
    const other = await it.create({ programs: [addressOf(5)] });
    const block = () => makeBlock({ slot: 10, transactions: [{ name: 'a' }, { name: 'b' }] });
    await it.apply(block());
    // It is no trouble of the upstreams: nothing is read again.
    assert.equal(it.state.reads, 1);
    const missedOf = async (id: string) =>
      (await it.call('GET', `/v0/webhooks/${id}/deliveries`)).body.missed.map(
        ({ fromSlot, toSlot, events, reason }: Record<string, unknown>) => [fromSlot, toSlot, events, reason],
      );
    assert.deepEqual(await missedOf(wanted.webhookID), [[10, 10, 2, 'interfaces_unread']]);
    assert.deepEqual(await missedOf(other.webhookID), []);
    assert.deepEqual(await it.deliveries(wanted.webhookID), []);
    // With another interface, a replay delivers them.
    it.state.isCostly = false;
    await it.apply(makeBlock({ slot: 11, transactions: [{ name: 'c' }] }));
    const path = `/v0/webhooks/${wanted.webhookID}/replay`;
    const replay = await it.call('POST', path, { fromSlot: 10, toSlot: 10 });
    assert.equal(replay.status, 202, JSON.stringify(replay.body));
    await it.replay(block());
    assert.equal((await it.deliveries(wanted.webhookID)).length, 3);
  });

  test('batches hold events of different contents; a test event has the form of the webhook', async (t) => {
    const it = await start(t);
    const { webhookID } = await it.create(
      { programs: [PROGRAM], includeFailed: true },
      { batchSize: 10, ordered: true },
    );
    await it.apply(makeBlock({ slot: 10, transactions: [{ name: 'a' }, { name: 'b', failed: true }, { name: 'c' }] }));
    await it.finished(webhookID);
    assert.equal(it.receiver.received.length, 1);
    assert.deepEqual(
      elements(it.receiver.received).map(({ transaction }) => [transaction.signature, transaction.status]),
      [
        [signatureOf('a'), 'ok'],
        [signatureOf('b'), 'error'],
        [signatureOf('c'), 'ok'],
      ],
    );
    const answer = await it.call('POST', `/v0/webhooks/${webhookID}/test`);
    assert.equal(answer.body.delivered, true, JSON.stringify(answer.body));
    const [sample] = elements(it.receiver.received.slice(1));
    assert.equal(sample!.instructions[0]!.instructionName, null);
    assert.deepEqual(sample!.matchedIndexes, [0]);
  });
});

test('without the plugin that parses transactions the type is refused', async (t) => {
  const it = await stage(t, { deliver: false });
  const body = { webhookURL: 'http://127.0.0.1:9/', webhookType: 'parsed' };
  const { status, body: answer } = await it.call('POST', '/v0/webhooks', body);
  assert.deepEqual([status, answer.error], [400, 'webhookType: parsed webhooks are not available']);
});
