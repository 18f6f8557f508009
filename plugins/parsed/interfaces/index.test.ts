import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { Value } from '@sinclair/typebox/value';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createBudgets } from '../../../src/budgets.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { type ChainReader, type Clock, RequestError } from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { ChainCallOptions } from '../../../src/ports/chain.ts';
import type { Queries, Store } from '../../../src/ports/store.ts';
import { decodeEntries } from '../../../src/solana/decode/decode-block.ts';
import { anchorAddress } from '../../../src/solana/idl/idl-accounts.ts';
import { MAX_IDL_BYTES } from '../../../src/solana/idl/read-idl.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { entryOf, sampleMessage } from '../../../test/helpers/rpc-block.ts';
import { createSfc32 } from '../../../test/helpers/sfc32.ts';
import { eachStore } from '../../../test/helpers/store.ts';
import { until } from '../../../test/helpers/until.ts';
import { type ParsedConfig, parsedConfig } from '../config.ts';
import type { FetchTransactions, TransactionWithKeys } from '../fetch.ts';
import { fillVersions, MAX_VERSIONS, migrations, readVersions, writeVersion } from '../store.ts';
import { createInterfaces, type Learned, NOW } from './index.ts';

const PROGRAM = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
const OTHER = 'whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc';
const METADATA = 'ProgM6JCCvbYkfKqJYHePx4xxSUSqJp7rh8Lyv7nk7S';
const SIGNAL = new AbortController().signal;

const idl = (name: string) => JSON.stringify({ name, instructions: [] });

/** A chain with one IDL account, or with two. */
function createChain() {
  const calls: string[] = [];
  const minSlots: number[] = [];
  const lacks = new Set<string>();
  const chain = {
    slot: 100,
    text: idl('first') as string | null,
    changes: [50] as readonly number[],
    /** Slots of transactions of the Program Metadata account. */
    otherChanges: [] as readonly number[],
    firstSlot: 0,
    /** First slot of the upstream that lists, where another one names `firstSlot`. */
    listedFrom: null as number | null,
    /** The newest slot of the archive, and the first one of the other upstream. */
    archiveSlot: Number.MAX_SAFE_INTEGER,
    prunedBelow: 0,
    /** Published interface of `OTHER`; null: none. */
    otherText: null as string | null,
    refuses: null as number | null,
    calls,
    minSlots,
    /** Methods that the node does not have, and how it says so. */
    lacks,
    lacking: [-32_601, 'Method not found'] as readonly [code: number, message: string],
  };
  const refused = (rpcCode: number, message: string) =>
    Object.assign(new Error(message), { code: 'CHAIN_RPC_ERROR', facts: { rpcCode } });
  const account = (owner: string, text: string) => {
    const data = deflateSync(text);
    const head = Buffer.alloc(44);
    createHash('sha256').update('internal:IdlAccount').digest().copy(head, 0, 0, 8);
    head.writeUInt32LE(data.length, 40);
    return { owner, data: [Buffer.concat([head, data]).toString('base64'), 'base64'] };
  };
  const reader = {
    async call(
      method: string,
      [first, options]: readonly unknown[],
      { archive = false, only, answeredBy }: Partial<ChainCallOptions>,
    ) {
      calls.push(method);
      const { minContextSlot = 0 } = (options ?? {}) as { minContextSlot?: number };
      minSlots.push(minContextSlot);
      const isBehind = archive && minContextSlot > chain.archiveSlot;
      const refusal = isBehind ? -32_016 : chain.refuses;
      if (lacks.has(method)) throw refused(...chain.lacking);
      if (refusal !== null) throw refused(refusal, 'refused');
      if (method === 'getSignaturesForAddress') {
        answeredBy?.('lists');
        const changes = first === anchorAddress(PROGRAM) ? chain.changes : chain.otherChanges;
        const isKept = (slot: number) => (archive ? slot <= chain.archiveSlot : slot >= chain.prunedBelow);
        return changes
          .filter(isKept)
          .map((slot, at) => ({ slot, err: null, signature: `${slot} ${at}` }))
          .reverse();
      }
      if (method === 'getFirstAvailableBlock')
        return only === 'lists' ? (chain.listedFrom ?? chain.firstSlot) : chain.firstSlot;
      const value = (first as string[]).map((key) => {
        if (key === anchorAddress(PROGRAM) && chain.text !== null) return account(PROGRAM, chain.text);
        return key === anchorAddress(OTHER) && chain.otherText !== null ? account(OTHER, chain.otherText) : null;
      });
      return { context: { slot: chain.slot }, value };
    },
  };
  return { chain, reader: reader as unknown as ChainReader };
}

function create(
  store: Store,
  reader: ChainReader,
  idls: Partial<ParsedConfig['idls']> = {},
  // Nobody has them: all of them may be changes.
  fetch: FetchTransactions = async (signatures) => new Map(signatures.map((one) => [one, null])),
  clock: Clock = createSystemClock(),
) {
  const config = Value.Default(parsedConfig, {}) as ParsedConfig;
  const interfaces = createInterfaces({
    chain: () => reader,
    store: () => store,
    log: createMemoryLog(),
    fetch,
    clock,
    config: { ...config, idls: { ...config.idls, ...idls } },
  });
  let learned: Learned;
  return {
    ...interfaces,
    async learn(...args: Parameters<typeof interfaces.learn>) {
      learned = await interfaces.learn(...args);
      return learned;
    },
    /** The interface that the last call of `learn` found. */
    find: (program: string, slot: number) => learned.find(program, slot),
    versionsOf: (program: string) => learned.versionsOf(program).flatMap((version) => version.program ?? []),
  };
}

/** A block in which the account of this address is written. */
function block(
  slot: number,
  write: string | null = null,
  blockhash = String(slot),
  previousBlockhash = String(slot - 1),
): ChainBlock {
  const tx = {
    error: null,
    keys: [0],
    staticKeyCount: 1,
    loadedWritableCount: 0,
    header: { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 0 },
  };
  const keys = { find: (key: Uint8Array) => (write !== null && encode32(key) === write ? 0 : -1) };
  return { slot, blockhash, previousBlockhash, transactions: [tx], keys } as unknown as ChainBlock;
}

eachStore('interfaces of programs', ({ store: open }) => {
  async function migrated(...[t]: Parameters<typeof open>): Promise<Store> {
    const store = await open(t);
    for (const { up } of migrations) await store.write((tx) => up(tx));
    return store;
  }

  test('each is valid from the change of its account on, also after a restart', async (t) => {
    const store = await migrated(t);
    const { chain, reader } = createChain();
    const names = (of: ReturnType<typeof create>) =>
      [49, 50, 99, 119, 120, 149, 150, 200, 500].map((slot) => of.find(PROGRAM, slot)?.name);
    const interfaces = create(store, reader);
    const learn = (of: typeof interfaces, slot: number) =>
      of.learn(new Map([[PROGRAM, slot]]), { tenant: OWN_WORK, signal: SIGNAL });
    await learn(interfaces, 90);
    assert.deepEqual(names(interfaces), [
      undefined,
      'first',
      'first',
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    // What is older than the last reading needs none.
    await learn(interfaces, 100);
    assert.deepEqual(chain.calls, ['getMultipleAccounts', 'getSignaturesForAddress', 'getSignaturesForAddress']);
    Object.assign(chain, { slot: 220, text: idl('second'), changes: [50, 120, 150] });
    await Promise.all([learn(interfaces, 180), learn(interfaces, 180)]);
    // Between two changes it is not known.
    const expected = [undefined, 'first', 'first', 'first', undefined, undefined, 'second', 'second', undefined];
    assert.deepEqual(names(interfaces), expected);
    const again = create(store, reader);
    chain.calls.length = 0;
    await learn(again, 180);
    assert.deepEqual([names(again), chain.calls], [expected, []]);
    Object.assign(chain, { slot: 300, text: null, changes: [50, 120, 150, 250] });
    await learn(again, 290);
    assert.deepEqual([again.find(PROGRAM, 249)?.name, again.find(PROGRAM, 250)], ['second', null]);
    assert.deepEqual(
      again.versionsOf(PROGRAM).map(({ name }) => name),
      ['first', 'second'],
    );
  });

  test('a stored version that cannot be read does not fail other programs, and is read again', async (t) => {
    const store = await migrated(t);
    const columns = ['program', 'from_slot', 'to_slot', 'checked_slot', 'hash', 'idl'];
    const rows = [
      [PROGRAM, 10, 80, 30, 'x', deflateSync(idl('oldest'))],
      [PROGRAM, 80, null, 90, 'y', deflateSync(Buffer.alloc(MAX_IDL_BYTES + 1, ' '))],
      [OTHER, 20, null, 500, 'z', deflateSync(idl('other'))],
    ];
    await store.write((tx) => tx.insertMany('parsed_interfaces', columns, rows, 'ignore'));
    const { chain, reader } = createChain();
    chain.changes = [10, 80];
    const interfaces = create(store, reader);
    await interfaces.learn(new Map([PROGRAM, OTHER].map((program) => [program, 90])), {
      tenant: OWN_WORK,
      signal: SIGNAL,
    });
    assert.deepEqual(
      [interfaces.find(OTHER, 90), interfaces.find(PROGRAM, 79), interfaces.find(PROGRAM, 90)].map((one) => one?.name),
      ['other', 'oldest', 'first'],
    );
  });

  test('of a program that changes often only the newest versions are kept, in memory and in the store', async (t) => {
    const store = await migrated(t);
    const { chain, reader } = createChain();
    const interfaces = create(store, reader);
    for (let at = 0; at < MAX_VERSIONS + 8; at++) {
      const slot = 100 + at * 10;
      Object.assign(chain, { slot, text: idl(`version_${at}`), changes: [slot - 5] });
      await interfaces.learn(new Map([[PROGRAM, slot]]), { tenant: OWN_WORK, signal: SIGNAL });
    }
    const wanted = Array.from({ length: MAX_VERSIONS }, (_, at) => `version_${at + 8}`);
    assert.deepEqual(
      interfaces.versionsOf(PROGRAM).map(({ name }) => name),
      wanted,
    );
    assert.equal((await readVersions(store, [PROGRAM], 1_000_000)).get(PROGRAM)?.length, MAX_VERSIONS);
    const rows = await (store.read as unknown as Queries<{ parsed_interfaces: object }>)
      .selectFrom('parsed_interfaces')
      .selectAll()
      .execute();
    assert.equal(rows.length, MAX_VERSIONS);
    // The newest ones that fit.
    assert.deepEqual(
      (await readVersions(store, [PROGRAM], 100)).get(PROGRAM)?.map(({ from }) => from),
      [475, 485],
    );
  });

  test('an interface of 300 KB fits into the smallest cache; one that does not fit is not read again and again', async (t) => {
    const store = await migrated(t);
    const smallest = parsedConfig.properties.idls.properties.cacheBytes.minimum!;
    for (const [size, name] of [
      [307_200, 'first'],
      [1_000_000, undefined],
    ] as const) {
      const { chain, reader } = createChain();
      chain.text = idl('first').padEnd(size);
      const interfaces = create(store, reader, { cacheBytes: smallest });
      chain.slot = size;
      await interfaces.learn(new Map([[PROGRAM, size]]), { tenant: OWN_WORK, signal: SIGNAL });
      await interfaces.learn(new Map([[PROGRAM, size]]), { tenant: OWN_WORK, signal: SIGNAL });
      assert.equal(interfaces.find(PROGRAM, size)?.name, name);
      assert.equal(chain.calls.filter((method) => method === 'getMultipleAccounts').length, 1);
    }
  });

  test('an account without a history is valid from the first slot of the node on', async (t) => {
    const store = await migrated(t);
    for (const [lacks, wanted, lacking = [-32_601, 'Method not found']] of [
      [[], [undefined, 'first', 'first']],
      [['getFirstAvailableBlock'], [undefined, undefined, 'first']],
      [['getSignaturesForAddress'], [undefined, undefined, 'first']],
      [['getSignaturesForAddress'], [undefined, undefined, 'first'], [-32_000, 'not available on your plan']],
      [['getSignaturesForAddress'], [undefined, undefined, 'first'], [405, 'Not allowed']],
    ] as const) {
      await store.write(async ({ db }) => {
        await (db as Queries<{ parsed_interfaces: object }>).deleteFrom('parsed_interfaces').execute();
      });
      const { chain, reader } = createChain();
      Object.assign(chain, { changes: [], firstSlot: 70, lacking });
      for (const method of lacks) chain.lacks.add(method);
      const interfaces = create(store, reader);
      await interfaces.learn(new Map([[PROGRAM, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
      assert.deepEqual(
        [69, 70, 100].map((slot) => interfaces.find(PROGRAM, slot)?.name),
        wanted,
        lacks.join(),
      );
    }
  });

  test('an account without a history is valid from the first slot of the node that listed it, whatever others have', async (t) => {
    const { chain, reader } = createChain();
    Object.assign(chain, { changes: [], listedFrom: 70 });
    const interfaces = create(await migrated(t), reader);
    await interfaces.learn(new Map([[PROGRAM, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
    const names = [69, 70, 100].map((slot) => interfaces.find(PROGRAM, slot)?.name);
    assert.deepEqual(names, [undefined, 'first', 'first']);
  });

  /** The names in slots, after a first reading in slot 100 and a second one in 200. */
  async function afterChange(
    t: Parameters<typeof open>[0],
    change: object,
    slots: readonly number[],
  ): Promise<readonly (string | null | undefined)[]> {
    const { chain, reader } = createChain();
    const interfaces = create(await migrated(t), reader);
    await interfaces.learn(new Map([[PROGRAM, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
    Object.assign(chain, { slot: 200, text: idl('second'), ...change });
    await interfaces.learn(new Map([[PROGRAM, 180]]), { tenant: OWN_WORK, signal: SIGNAL });
    return slots.map((slot) => interfaces.find(PROGRAM, slot)?.name);
  }

  test('changes of both accounts count', async (t) => {
    const names = await afterChange(t, { changes: [50, 160], otherChanges: [120, 150] }, [119, 120, 155, 160]);
    assert.deepEqual(names, ['first', undefined, undefined, 'second']);
  });

  test('a change behind the end of a list is unknown', async (t) => {
    const changes = Array.from({ length: 1_000 }, (_, at) => (at < 500 ? 150 : 160));
    const names = await afterChange(t, { changes }, [100, 101, 149, 160]);
    assert.deepEqual(names, ['first', undefined, undefined, 'second']);
  });

  test('a change after the accounts were read belongs to the next reading', async (t) => {
    const names = await afterChange(t, { changes: [50, 120, 210] }, [119, 120, 200, 210]);
    assert.deepEqual(names, ['first', 'second', 'second', undefined]);
  });

  test('an archive that is behind is completed by another upstream', async (t) => {
    const change = { changes: [50, 120, 195], archiveSlot: 190, prunedBelow: 130 };
    assert.deepEqual(await afterChange(t, change, [119, 120, 194, 195]), ['first', undefined, undefined, 'second']);
  });

  test('an upstream that is behind says nothing of later slots', async (t) => {
    const { chain, reader } = createChain();
    const interfaces = create(await migrated(t), reader);
    await interfaces.learn(new Map([[PROGRAM, 130]]), { tenant: OWN_WORK, signal: SIGNAL });
    assert.deepEqual([interfaces.find(PROGRAM, 100)?.name, interfaces.find(PROGRAM, 101)], ['first', null]);
    // The accounts have to include the transaction, and the history what the accounts show.
    assert.deepEqual(chain.minSlots, [130, 100, 100]);
    chain.slot = 140;
    await interfaces.learn(new Map([[PROGRAM, NOW]]), { tenant: OWN_WORK, signal: SIGNAL });
    assert.deepEqual([interfaces.find(PROGRAM, 140)?.name, chain.minSlots.at(-1)], ['first', 0]);
  });

  test('a call keeps what it learned, whatever the cache drops', async (t) => {
    const { chain, reader } = createChain();
    Object.assign(chain, { text: idl('first').padEnd(100_000), otherText: idl('other').padEnd(300_000) });
    chain.otherChanges = [40];
    const store = await migrated(t);
    const interfaces = create(store, reader, { cacheBytes: 8_388_608 });
    const both = (slot: number) => new Map([PROGRAM, OTHER].map((program) => [program, slot]));
    const first = await interfaces.learn(both(90), { tenant: OWN_WORK, signal: SIGNAL });
    await interfaces.learn(new Map([[OTHER, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
    assert.deepEqual([first.find(PROGRAM, 60)?.name, first.find(OTHER, 60)?.name], ['first', 'other']);
    // The version before is not lost when the entry is dropped between two steps.
    Object.assign(chain, { slot: 200, text: idl('second').padEnd(100_000), changes: [50, 120] });
    const again = create(store, reader, { cacheBytes: 8_388_608 });
    const second = await again.learn(both(180), { tenant: OWN_WORK, signal: SIGNAL });
    assert.deepEqual(
      [second.find(PROGRAM, 60), second.find(PROGRAM, 130), second.find(OTHER, 60)].map((one) => one?.name),
      ['first', 'second', 'other'],
    );
  });

  test('calls that see two changes at the same time lose neither', async (t) => {
    const { chain, reader } = createChain();
    const interfaces = create(await migrated(t), reader);
    await interfaces.learn(new Map([[PROGRAM, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
    Object.assign(chain, { slot: 150, text: idl('second'), changes: [50, 120] });
    const one = interfaces.learn(new Map([[PROGRAM, 150]]), { tenant: OWN_WORK, signal: SIGNAL });
    // The second call reads the accounts before the first one has their history.
    while (chain.calls.filter((method) => method === 'getMultipleAccounts').length < 2) await Promise.resolve();
    Object.assign(chain, { slot: 200, text: idl('third'), changes: [50, 120, 170] });
    const two = interfaces.learn(new Map([[PROGRAM, 200]]), { tenant: OWN_WORK, signal: SIGNAL });
    await Promise.all([one, two]);
    const { find } = await two;
    assert.deepEqual(
      [60, 119, 120, 150, 160, 170].map((slot) => find(PROGRAM, slot)?.name),
      ['first', 'first', 'second', 'second', 'second', 'third'],
    );
  });

  test('a refusal of the upstream is no answer', async (t) => {
    const { chain, reader } = createChain();
    const interfaces = create(await migrated(t), reader);
    chain.refuses = -32_000;
    await assert.rejects(interfaces.learn(new Map([[PROGRAM, 1]]), { tenant: OWN_WORK, signal: SIGNAL }), {
      status: 503,
    });
    // A node without the method has no accounts to show.
    chain.refuses = -32_601;
    await interfaces.learn(new Map([[PROGRAM, 1]]), { tenant: OWN_WORK, signal: SIGNAL });
    assert.equal(interfaces.find(PROGRAM, 1), null);
  });

  test('while blocks follow each other, an interface is read again only when one writes its account, or did on a fork that was left', async (t) => {
    const { chain, reader } = createChain();
    const interfaces = create(await migrated(t), reader);
    const readings = () => chain.calls.filter((one) => one === 'getMultipleAccounts').length;
    const at = async (one: ChainBlock) => {
      chain.slot = Math.max(chain.slot, one.slot);
      interfaces.follow(one);
      await interfaces.learn(new Map([[PROGRAM, one.slot]]), { tenant: OWN_WORK, signal: SIGNAL });
      return [readings(), interfaces.find(PROGRAM, one.slot)?.name];
    };
    assert.deepEqual(await at(block(200)), [1, 'first']);
    for (const slot of [201, 202, 203]) assert.deepEqual(await at(block(slot)), [1, 'first'], String(slot));
    // Another caller that passes the same blocks later changes nothing.
    interfaces.follow(block(201));
    assert.deepEqual(await at(block(204)), [1, 'first']);
    chain.text = idl('second');
    chain.changes = [50, 205];
    assert.deepEqual(await at(block(205, anchorAddress(PROGRAM))), [2, 'second']);
    assert.equal(interfaces.find(PROGRAM, 204)?.name, 'first');
    assert.deepEqual(await at(block(206)), [2, 'second']);
    // A block is missing: it may have written the account.
    assert.deepEqual(await at(block(208)), [3, 'second']);
    assert.deepEqual(await at(block(209)), [3, 'second']);
    // The chain has left a branch on which nothing changed, then one on which something did.
    assert.deepEqual(await at(block(209, null, 'other', '208')), [3, 'second']);
    chain.text = idl('third');
    chain.changes = [50, 205, 210];
    assert.deepEqual(await at(block(210, anchorAddress(PROGRAM), '210', 'other')), [4, 'third']);
    chain.text = idl('second');
    chain.changes = [50, 205];
    assert.deepEqual(await at(block(210, null, 'another', 'other')), [5, 'second']);
    assert.deepEqual(await at(block(211, null, '211', 'another')), [5, 'second']);
  });

  for (const [taken, change, wanted, rows] of [
    ['back', { text: idl('first'), changes: [50] }, ['first', 'first', 'first'], [50]],
    ['over by another', { text: idl('third'), changes: [50, 195] }, ['first', 'third', 'third'], [50, 195]],
    ['over later', { changes: [50, 202] }, ['first', 'first', 'second'], [50, 202]],
  ] as const)
    for (const restarts of [true, false])
      test(`a change that the chain has left with its fork is taken ${taken}, ${restarts ? 'after a restart' : 'while blocks are followed'}`, async (t) => {
        const { chain, reader } = createChain();
        const store = await migrated(t);
        const names = async (of: ReturnType<typeof create>) => {
          await of.learn(new Map([[PROGRAM, 203]]), { tenant: OWN_WORK, signal: SIGNAL });
          return [194, 195, 203].map((slot) => of.find(PROGRAM, slot)?.name);
        };
        const before = create(store, reader);
        before.follow(block(194));
        await before.learn(new Map([[PROGRAM, 100]]), { tenant: OWN_WORK, signal: SIGNAL });
        before.follow(block(195, anchorAddress(PROGRAM)));
        Object.assign(chain, { slot: 196, text: idl('second'), changes: [50, 195] });
        await before.learn(new Map([[PROGRAM, 196]]), { tenant: OWN_WORK, signal: SIGNAL });
        assert.equal(before.find(PROGRAM, 195)?.name, 'second');
        Object.assign(chain, { slot: 203, ...change });
        const after = restarts ? create(store, reader) : before;
        after.follow(block(195, null, 'other', '194'));
        assert.deepEqual(await names(after), wanted);
        // The store follows: a process that begins when the change is final reads nothing of the fork.
        const stored = (await readVersions(store, [PROGRAM], 1_000_000)).get(PROGRAM)!;
        assert.deepEqual(
          stored.map(({ from }) => from),
          rows,
        );
        assert.equal(stored.at(-1)?.to, null);
        assert.deepEqual(await names(create(store, reader)), wanted);
      });

  test('a stored version whose change the upstream no longer knows stays as it is', async (t) => {
    const { chain, reader } = createChain();
    const store = await migrated(t);
    chain.lacks.add('getSignaturesForAddress');
    await create(store, reader).learn(new Map([[PROGRAM, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
    chain.slot = 300;
    const interfaces = create(store, reader);
    await interfaces.learn(new Map([[PROGRAM, 300]]), { tenant: OWN_WORK, signal: SIGNAL });
    assert.deepEqual(
      [99, 100, 200, 300].map((slot) => interfaces.find(PROGRAM, slot)?.name),
      [undefined, 'first', 'first', 'first'],
    );
  });

  test('a version stored by another process is read again when a followed block has written the account since', async (t) => {
    const { chain, reader } = createChain();
    const store = await migrated(t);
    chain.slot = 200;
    await create(store, reader).learn(new Map([[PROGRAM, 200]]), { tenant: OWN_WORK, signal: SIGNAL });
    const interfaces = create(store, reader);
    for (const slot of [199, 200, 201]) interfaces.follow(block(slot));
    interfaces.follow(block(202, anchorAddress(PROGRAM)));
    chain.slot = 202;
    chain.text = idl('second');
    chain.changes = [50, 202];
    await interfaces.learn(new Map([[PROGRAM, 202]]), { tenant: OWN_WORK, signal: SIGNAL });
    assert.deepEqual(
      [201, 202].map((slot) => interfaces.find(PROGRAM, slot)?.name),
      ['first', 'second'],
    );
  });

  test('the folder of the operator wins, and is read again', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'parhelion-idls-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const { chain, reader } = createChain();
    const interfaces = create(await migrated(t), reader, { folder });
    writeFileSync(join(folder, `${PROGRAM}.json`), idl('own'));
    writeFileSync(join(folder, `${OTHER}.json`), 'no JSON');
    writeFileSync(join(folder, 'notes.txt'), idl('no interface'));
    await interfaces.readFolder();
    await interfaces.learn(new Map([[PROGRAM, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
    assert.deepEqual([interfaces.find(PROGRAM, 1)?.name, chain.calls], ['own', []]);
    writeFileSync(join(folder, `${PROGRAM}@70.json`), idl('own_later'));
    writeFileSync(join(folder, `${OTHER}.json`), idl('other'));
    await interfaces.readFolder();
    await interfaces.learn(new Map(), { tenant: OWN_WORK, signal: SIGNAL });
    assert.deepEqual(
      [interfaces.find(PROGRAM, 69)?.name, interfaces.find(PROGRAM, 70)?.name, interfaces.find(OTHER, 1)?.name],
      ['own', 'own_later', 'other'],
    );
    rmSync(join(folder, `${PROGRAM}.json`));
    rmSync(join(folder, `${PROGRAM}@70.json`));
    await interfaces.readFolder();
    await interfaces.learn(new Map([[PROGRAM, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
    assert.equal(interfaces.find(PROGRAM, 90)?.name, 'first');
  });

  test('a transaction that only names the account of an interface does not move the slot from which it is valid', async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    t.diagnostic(`seed ${seed}`);
    const draw = createSfc32(seed);
    const pick = <T>(of: readonly T[]): T => of[draw.below(of.length)]!;
    const [account, tag] = [decode32(anchorAddress(PROGRAM)!)!, Buffer.from('40f4bc78a7e9690a', 'hex')];
    const [own, foreign, someone] = [decode32(PROGRAM)!, decode32(OTHER)!, Buffer.alloc(32, 5)];
    /** Account keys: payer, the account of the interface, someone, the program. */
    const made = (
      signature: string,
      program: Uint8Array,
      accounts: readonly number[],
      data: Buffer,
    ): TransactionWithKeys => {
      const message = sampleMessage({
        header: [1, 0, pick([1, 2])],
        keys: [Buffer.alloc(32, 'payer'), someone, account, program],
        instructions: [{ program: 3, accounts: Uint8Array.from(accounts), data }],
      });
      const { transactions, keys } = decodeEntries(1, [entryOf({ message })], new Uint8Array(32));
      return { signature, slot: 0, blockTime: null, tx: transactions[0]!, keys, text: async () => Buffer.alloc(0) };
    };
    const change = (signature: string) =>
      pick([
        () => made(signature, own, [2, 0], Buffer.concat([tag, Buffer.of(2, 1, 0, 0, 0, 7)])),
        () => made(signature, own, [1, 2, 0], Buffer.concat([tag, Buffer.of(3)])),
        () => made(signature, own, [2, 0], Buffer.concat([tag, Buffer.of(5)])),
        () => made(signature, own, [0, 2], Buffer.concat([tag, Buffer.of(0)])),
      ])();
    /** Anybody can send these. */
    const mention = (signature: string) =>
      pick([
        () => made(signature, foreign, [2, 0], Buffer.concat([tag, Buffer.of(3)])),
        () => made(signature, own, [2, 0], Buffer.from('another instruction')),
        () => made(signature, own, [1, 0, 2], Buffer.concat([tag, Buffer.of(2)])),
        () => made(signature, decode32(METADATA)!, [1, 0, 2], Buffer.of(0)),
      ])();
    for (let turn = 0; turn < 40; turn += 1) {
      const { chain, reader } = createChain();
      const known = new Map<string, TransactionWithKeys>();
      const fetch: FetchTransactions = async (signatures) =>
        new Map(signatures.map((one) => [one, known.get(one) ?? null]));
      /** The newest transactions with the account come last; at most seven mentions behind the change. */
      const history = (changes: readonly number[], upTo: number) => {
        const mentions = Array.from(
          { length: draw.below(8) },
          () => changes.at(-1)! + 1 + draw.below(upTo - changes.at(-1)!),
        );
        const slots = [...changes, ...mentions].sort((left, right) => left - right);
        chain.changes = slots;
        known.clear();
        for (const [at, slot] of slots.entries())
          known.set(`${slot} ${at}`, changes.includes(slot) ? change(`${slot} ${at}`) : mention(`${slot} ${at}`));
      };
      const interfaces = create(await migrated(t), reader, {}, fetch);
      const slots = [49, 50, 75, 99, 119, 120, 160, 200];
      const names = () => slots.map((slot) => interfaces.find(PROGRAM, slot)?.name);
      history([50], 100);
      await interfaces.learn(new Map([[PROGRAM, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
      const first = [undefined, 'first', 'first', 'first', undefined, undefined, undefined, undefined];
      assert.deepEqual(names(), first, `turn ${turn}`);
      Object.assign(chain, { slot: 200, text: idl('second') });
      history([50, 120], 200);
      await interfaces.learn(new Map([[PROGRAM, 190]]), { tenant: OWN_WORK, signal: SIGNAL });
      assert.deepEqual(
        names(),
        [undefined, 'first', 'first', 'first', 'first', 'second', 'second', 'second'],
        `turn ${turn}`,
      );
    }
  });

  test('behind more mentions than are read an interface is valid from the oldest of them on', async (t) => {
    const { chain, reader } = createChain();
    chain.changes = [50, ...Array.from({ length: 20 }, (_, at) => 70 + at)];
    const message = sampleMessage({ keys: [1, 2, 3].map((byte) => Buffer.alloc(32, byte)) });
    const { transactions, keys } = decodeEntries(1, [entryOf({ message })], new Uint8Array(32));
    const found = { slot: 0, blockTime: null, tx: transactions[0]!, keys, text: async () => Buffer.alloc(0) };
    const fetch: FetchTransactions = async (signatures) =>
      new Map(signatures.map((signature) => [signature, { ...found, signature }]));
    const interfaces = create(await migrated(t), reader, {}, fetch);
    await interfaces.learn(new Map([[PROGRAM, 90]]), { tenant: OWN_WORK, signal: SIGNAL });
    assert.deepEqual(
      [81, 82, 100].map((slot) => interfaces.find(PROGRAM, slot)?.name),
      [undefined, 'first', 'first'],
    );
  });

  /** A history of the IDL account: in each slot a text that replaces the one before; null closes the account. */
  function createReplaced(contents: readonly (readonly [slot: number, name: string | null])[]) {
    const { chain, reader } = createChain();
    const known = new Map<string, TransactionWithKeys>();
    const [account, buffer] = [decode32(anchorAddress(PROGRAM)!)!, Buffer.alloc(32, 7)];
    const idlTag = Buffer.from('40f4bc78a7e9690a', 'hex');
    const instruction = (accounts: readonly number[], ...data: readonly number[]) => ({
      program: 3,
      accounts: Uint8Array.from(accounts),
      data: Buffer.concat([idlTag, Buffer.from(data)]),
    });
    const write = (place: number, name: string) => {
      const bytes = deflateSync(idl(name));
      return instruction([place, 0], 2, bytes.length & 255, bytes.length >> 8, 0, 0, ...bytes);
    };
    let isThere = false;
    for (const [at, [slot, name]] of contents.entries()) {
      const replace = (one: string) => [instruction([2, 0], 1), write(2, one), instruction([2, 1, 0], 3)];
      const create = (one: string) => [instruction([0, 1], 0, 0), write(1, one)];
      const instructions = name === null ? [instruction([1, 0, 0], 5)] : isThere ? replace(name) : create(name);
      isThere = name !== null;
      const message = sampleMessage({
        header: [1, 0, 1],
        keys: [Buffer.alloc(32, 'payer'), account, buffer, decode32(PROGRAM)!],
        instructions,
      });
      const { transactions, keys } = decodeEntries(slot, [entryOf({ message })], new Uint8Array(32));
      const signature = `${slot} ${at}`;
      const found = { slot, blockTime: null, tx: transactions[0]!, keys, text: async () => Buffer.alloc(0) };
      known.set(signature, { ...found, signature });
    }
    const newest = contents.at(-1)![1];
    Object.assign(chain, { text: newest === null ? null : idl(newest), changes: contents.map(([slot]) => slot) });
    const fetch: FetchTransactions = async (signatures) =>
      new Map(signatures.map((one) => [one, known.get(one) ?? null]));
    const lists = () => chain.calls.filter((one) => one === 'getSignaturesForAddress').length;
    return { chain, reader, fetch, lists };
  }
  const since = (oldest: number, newest = 90) =>
    [new Map([[PROGRAM, newest]]), { tenant: OWN_WORK, signal: SIGNAL }, new Map([[PROGRAM, oldest]])] as const;

  test('an interface that was replaced before the first read is recovered once, when a transaction needs it, and stored', async (t) => {
    const store = await migrated(t);
    const { chain, reader, fetch, lists } = createReplaced([
      [10, 'zero'],
      [40, 'one'],
      [50, 'first'],
    ]);
    // Far enough from the newest change: no fork takes it back.
    chain.slot = 200;
    const interfaces = create(store, reader, {}, fetch);
    const names = (of: typeof interfaces) => [9, 10, 39, 40, 49, 50].map((slot) => of.find(PROGRAM, slot)?.name);
    await interfaces.learn(...since(50));
    const before = lists();
    assert.deepEqual(names(interfaces), [undefined, undefined, undefined, undefined, undefined, 'first']);
    await Promise.all([interfaces.learn(...since(20)), interfaces.learn(...since(45))]);
    const expected = [undefined, 'zero', 'zero', 'one', 'one', 'first'];
    assert.deepEqual(names(interfaces), expected);
    // Both accounts, and the buffers of two upgrades.
    assert.equal(lists() - before, 4);
    await interfaces.learn(...since(5));
    chain.calls.length = 0;
    const again = create(store, reader, {}, fetch);
    await again.learn(...since(1));
    assert.deepEqual([names(again), chain.calls], [expected, []]);
  });

  test('a hole between two readings is filled; what is found again was there in the meantime', async (t) => {
    const store = await migrated(t);
    const { chain, reader, fetch } = createReplaced([
      [50, 'first'],
      [120, 'between'],
      [150, 'second'],
    ]);
    Object.assign(chain, { text: idl('first'), changes: [50] });
    const interfaces = create(store, reader, {}, fetch);
    await interfaces.learn(...since(60));
    Object.assign(chain, { slot: 200, text: idl('second'), changes: [50, 120, 150] });
    await interfaces.learn(...since(180, 180));
    assert.equal(interfaces.find(PROGRAM, 130), null);
    await interfaces.learn(...since(130, 180));
    const slots = [49, 50, 119, 120, 149, 150, 200];
    const expected = [undefined, 'first', 'first', 'between', 'between', 'second', 'second'];
    assert.deepEqual(
      slots.map((slot) => interfaces.find(PROGRAM, slot)?.name),
      expected,
    );
    const stored = (await readVersions(store, [PROGRAM], 1_000_000)).get(PROGRAM)!;
    assert.deepEqual(
      stored.map(({ from, to }) => [from, to]),
      [
        [0, 50],
        [50, 120],
        [120, 150],
        [150, null],
      ],
    );
  });

  test('a history that does not lead to what the account shows is not believed, and not read again', async (t) => {
    const { chain, reader, fetch, lists } = createReplaced([
      [10, 'zero'],
      [50, 'first'],
    ]);
    chain.text = idl('another');
    const interfaces = create(await migrated(t), reader, {}, fetch);
    await interfaces.learn(...since(20));
    const before = lists();
    await interfaces.learn(...since(20));
    assert.deepEqual(
      [20, 50].map((slot) => interfaces.find(PROGRAM, slot)?.name),
      [undefined, 'another'],
    );
    assert.equal(lists(), before);
  });

  test('a look-back that fails fails the call, and the next one does it again', async (t) => {
    const { reader, fetch } = createReplaced([
      [10, 'zero'],
      [50, 'first'],
    ]);
    let fails = false;
    const interfaces = create(await migrated(t), reader, {}, async (signatures, ...rest) => {
      if (fails) throw new RequestError(503, 'Service unavailable');
      return fetch(signatures, ...rest);
    });
    await interfaces.learn(...since(50));
    fails = true;
    const calls = await Promise.allSettled([interfaces.learn(...since(20)), interfaces.learn(...since(20))]);
    assert.deepEqual(
      calls.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
    fails = false;
    await interfaces.learn(...since(20));
    assert.equal(interfaces.find(PROGRAM, 20)?.name, 'zero');
  });

  test('a slow look-back continues: calls during it get an error to try again, and a later call finds the result', async (t) => {
    const { reader, fetch } = createReplaced([
      [10, 'zero'],
      [50, 'first'],
    ]);
    let begin = (): void => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    let reads = 0;
    const slow: FetchTransactions = async (signatures, ...rest) => {
      // The change itself is looked at first.
      reads += 1;
      if (reads > 1) await begun;
      return fetch(signatures, ...rest);
    };
    const clock = createManualClock();
    const interfaces = create(await migrated(t), reader, {}, slow, clock);
    await interfaces.learn(...since(50));
    const first = assert.rejects(
      interfaces.learn(...since(20)),
      (error: RequestError) => error.status === 503 && error.retryAfterS === 5,
    );
    const gone = new AbortController();
    const [newest, , oldest] = since(20);
    const second = assert.rejects(
      interfaces.learn(newest, { tenant: OWN_WORK, signal: gone.signal }, oldest),
      /the client has gone/,
    );
    gone.abort(new Error('the client has gone'));
    await second;
    await clock.advance(20_000);
    await first;
    begin();
    await interfaces.learn(...since(20));
    assert.deepEqual([interfaces.find(PROGRAM, 20)?.name, reads], ['zero', 2]);
  });

  test('look-backs of one project wait for each other, and those of another project begin at once', async (t) => {
    const { chain, reader } = createReplaced([
      [10, 'zero'],
      [50, 'first'],
    ]);
    // Many programs with the same history.
    const programs = Array.from({ length: 20 }, (_, at) => encode32(Buffer.alloc(32, at + 1)));
    const addresses = new Map(programs.map((program) => [anchorAddress(program)!, program]));
    const data = deflateSync(chain.text!);
    const head = Buffer.alloc(44);
    createHash('sha256').update('internal:IdlAccount').digest().copy(head, 0, 0, 8);
    head.writeUInt32LE(data.length, 40);
    const text = Buffer.concat([head, data]).toString('base64');
    const call: ChainReader['call'] = async <T>(
      method: string,
      params: readonly unknown[],
      options: Parameters<ChainReader['call']>[2],
    ) => {
      const [first] = params;
      if (method === 'getSignaturesForAddress' && addresses.has(first as string))
        return reader.call<T>(method, [anchorAddress(PROGRAM), ...params.slice(1)], options);
      if (method !== 'getMultipleAccounts') return reader.call<T>(method, params, options);
      const value = (first as string[]).map((key) =>
        addresses.has(key) ? { owner: addresses.get(key), data: [text, 'base64'] } : null,
      );
      return { context: { slot: chain.slot }, value } as T;
    };
    const begun: string[] = [];
    let isLookingBack = false;
    const slow: FetchTransactions = async (signatures, _, asker) => {
      if (!isLookingBack) return new Map(signatures.map((one) => [one, null]));
      begun.push(asker.tenant.id);
      return new Promise(() => undefined);
    };
    const clock = createManualClock();
    const interfaces = create(await migrated(t), { ...reader, call }, {}, slow, clock);
    const ledger = createBudgets();
    const tenantOf = (projectId: string) =>
      ledger.tenantOf({ projectId, keyId: projectId, plan: 'p', wallet: null }, '');
    const learn = (program: string, project: string, oldest: number) =>
      interfaces.learn(
        new Map([[program, 90]]),
        { tenant: tenantOf(project), signal: SIGNAL },
        new Map([[program, oldest]]),
      );
    for (const program of programs) await learn(program, 'any', 50);
    isLookingBack = true;
    const [neighbours, ...floods] = programs;
    const refused: number[] = [];
    const waitFor = (work: Promise<unknown>) => work.catch((error: RequestError) => refused.push(error.status));
    const flooding = floods.map((program) => waitFor(learn(program, 'flood', 20)));
    await until(() => begun.length > 0);
    const own = waitFor(learn(neighbours!, 'neighbour', 20));
    await until(() => begun.includes(tenantOf('neighbour').id));
    const ofFlood = begun.filter((id) => id === tenantOf('flood').id).length;
    assert.ok(ofFlood < 8, `${ofFlood} of 8 places`);
    assert.deepEqual(refused, [], 'they wait instead of being refused');
    await clock.advance(20_000);
    await Promise.all([...flooding, own]);
    assert.ok(refused.length === programs.length && refused.every((status) => status === 503), refused.join());
  });

  test('look-backs that fail again and again end: what they cannot read is unknown for a while', async (t) => {
    const { reader, fetch } = createReplaced([
      [10, 'zero'],
      [50, 'first'],
    ]);
    let fails = false;
    const clock = createManualClock();
    const broken: FetchTransactions = async (signatures, ...rest) => {
      if (fails) throw new RequestError(503, 'Service unavailable');
      return fetch(signatures, ...rest);
    };
    const interfaces = create(await migrated(t), reader, {}, broken, clock);
    await interfaces.learn(...since(50));
    fails = true;
    for (let turn = 0; turn < 3; turn += 1) await assert.rejects(interfaces.learn(...since(20)), { status: 503 });
    await interfaces.learn(...since(20));
    assert.deepEqual([interfaces.find(PROGRAM, 20), interfaces.find(PROGRAM, 50)?.name], [null, 'first']);
    fails = false;
    await clock.advance(600_000);
    await interfaces.learn(...since(20));
    assert.equal(interfaces.find(PROGRAM, 20)?.name, 'zero');
  });

  test('while the newest change may still be of a fork, older interfaces are there after a restart all the same', async (t) => {
    const { chain, reader, fetch } = createReplaced([
      [10, 'zero'],
      [190, 'first'],
    ]);
    chain.slot = 200;
    const store = await migrated(t);
    const names = (of: ReturnType<typeof create>) => [20, 189, 190, 195].map((slot) => of.find(PROGRAM, slot)?.name);
    const expected = ['zero', 'zero', 'first', 'first'];
    await create(store, reader, {}, fetch).learn(...since(195, 195));
    const again = create(store, reader, {}, fetch);
    await again.learn(...since(20, 20));
    assert.deepEqual(names(again), expected);
    const third = create(store, reader, {}, fetch);
    await third.learn(...since(20, 20));
    await third.learn(...since(195, 198));
    await third.learn(...since(20, 20));
    assert.deepEqual(names(third), expected);
  });

  test('two processes that know an interface from different slots on agree in the store', async (t) => {
    const store = await migrated(t);
    const columns = ['program', 'from_slot', 'to_slot', 'checked_slot', 'hash', 'idl'];
    const row = (from: number) => [PROGRAM, from, null, 170, 'x', deflateSync(idl('first'))];
    await store.write((tx) => tx.insertMany('parsed_interfaces', columns, [row(150), row(160)], 'ignore'));
    const stored = async () =>
      (await readVersions(store, [PROGRAM], 1_000_000)).get(PROGRAM)!.map(({ from, to }) => [from, to]);
    await fillVersions(store, PROGRAM, { added: [], moved: [{ stored: 160, from: 150, to: null }] });
    assert.deepEqual(await stored(), [[150, null]]);
    await fillVersions(store, PROGRAM, { added: [], moved: [{ stored: 150, from: 140, to: null }] });
    // The other process still has it from 150 on.
    const next = { from: 200, to: null, checkedSlot: 210, hash: 'y', text: idl('second') };
    await writeVersion(store, PROGRAM, next, { previous: { from: 150, to: 200 }, isDoubted: false });
    assert.deepEqual(await stored(), [
      [140, 200],
      [200, null],
    ]);
  });

  test('of a program that publishes nothing any more, who asks for all slots gets what was there', async (t) => {
    const { reader, fetch, lists } = createReplaced([
      [10, 'zero'],
      [50, null],
    ]);
    const interfaces = create(await migrated(t), reader, {}, fetch);
    await interfaces.learn(...since(20));
    assert.deepEqual([interfaces.find(PROGRAM, 20), lists()], [null, 0]);
    await interfaces.learn(...since(0));
    assert.deepEqual(
      [9, 10, 49, 50].map((slot) => interfaces.find(PROGRAM, slot)?.name),
      [undefined, 'zero', 'zero', undefined],
    );
  });
});
