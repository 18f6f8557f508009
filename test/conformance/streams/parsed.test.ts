/** Subscriptions of parsed transactions over the websocket: filters, forms, replays, forks, rules, credits, and interfaces of a project. */
import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, PublicKey, SystemProgram, Transaction, TransactionInstruction } from '@solana/web3.js';
import WebSocket from 'ws';
import { parseExact } from '../../../src/lib/json.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import type { Json } from './harness.ts';

const skip = (await chainMissing()) ?? false;
const MEMO = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
const SYSTEM = SystemProgram.programId.toBase58();
const SUBSCRIBE = 'parsedTransactionSubscribe';

async function until<T>(what: string, find: () => T | null | undefined | false): Promise<T> {
  for (let turn = 0; turn < 3_000; turn += 1) {
    const found = find();
    if (found !== null && found !== undefined && found !== false) return found;
    await sleep(20);
  }
  throw new Error(`waited in vain: ${what}`);
}

describe('subscriptions of parsed transactions', { skip }, () => {
  let chain: TestChain;
  let daemon: DaemonInProcess;
  let payer: Keypair;

  before(async () => {
    chain = await startChain();
    daemon = await startDaemon({
      chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
      config: {
        plugins: ['access', 'proxy', 'parsed', 'streams'],
        ledger: { retain: { hours: 1 } },
        parsed: { idls: { cacheBytes: 8_388_608, uploads: { maxPrograms: 2, maxVersions: 2 } } },
        streams: {
          grpc: { port: await freePort() },
          websocket: { parsed: { silentMs: 3_000, maxCallsPerSecond: 40 } },
        },
      },
    });
    payer = Keypair.generate();
    await chain.fund(payer.publicKey.toBase58(), 10_000_000_000);
  });

  after(async () => {
    await daemon?.stop();
    await chain?.stop();
  });

  async function connect(t: TestContext) {
    const socket = new WebSocket(`${daemon.apiUrl.replace('http', 'ws')}/?api-key=${daemon.key}`);
    const messages: Json[] = [];
    const closed = new Promise<{ code: number; reason: string }>((resolve) =>
      socket.on('close', (code, reason) => resolve({ code, reason: String(reason) })),
    );
    socket.on('message', (data) => messages.push(parseExact(String(data))));
    const pings = setInterval(() => socket.ping(), 500);
    const stop = () => clearInterval(pings);
    t.after(() => {
      stop();
      socket.terminate();
    });
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    let nextId = 1;
    const call = async (method: string, params: unknown): Promise<Json> => {
      const id = nextId++;
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
      return await until(`the answer to ${method}`, () => messages.find((one) => one.id === id));
    };
    return {
      socket,
      messages,
      closed,
      call,
      stop,
      async subscribe(...params: unknown[]): Promise<number> {
        const answer = await call(SUBSCRIBE, params);
        assert.equal(typeof answer.result, 'number', JSON.stringify(answer));
        return answer.result;
      },
      /** What came of payments to somebody. */
      of: (id: number): Json[] =>
        messages.filter((one) => one.params?.subscription === id).map((one) => one.params.result),
    };
  }

  async function pay(to: PublicKey, lamports: number, more: { readonly isBad?: boolean } = {}): Promise<string> {
    const transaction = new Transaction().add(
      SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports }),
      new TransactionInstruction({
        programId: MEMO,
        keys: [],
        data: Buffer.from(more.isBad ? [255] : `pay ${lamports}`),
      }),
    );
    transaction.recentBlockhash = (await chain.connection.getLatestBlockhash()).blockhash;
    transaction.sign(payer);
    return await chain.connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true });
  }

  const credits = async (): Promise<number> => {
    const response = await fetch(`${daemon.apiUrl}/v0/admin/projects/${daemon.projectId}/usage`, {
      headers: { 'X-Api-Key': daemon.key },
    });
    return ((await response.json()) as Json).creditsUsed;
  };

  test('programs, names, accounts and roles hold for one instruction; full, matched and raw', async (t) => {
    const client = await connect(t);
    const to = Keypair.generate().publicKey;
    const [address, from] = [to.toBase58(), payer.publicKey.toBase58()];
    const include = { accounts: { include: [address] } };
    const ids = {
      full: await client.subscribe(include),
      matched: await client.subscribe({ ...include, programs: [SYSTEM] }, { details: 'matched' }),
      raw: await client.subscribe({ ...include, instructionNames: ['TRANS-fer'] }, { details: 'raw' }),
      role: await client.subscribe({ ...include, accounts: { ...include.accounts, roles: { source: from } } }),
      failed: await client.subscribe({ ...include, includeFailed: true }, { commitment: 'confirmed' }),
      // The transaction has both, the instruction has not.
      never: await client.subscribe({ programs: [MEMO.toBase58()], ...include }),
      otherName: await client.subscribe({ ...include, instructionNames: ['create_account'] }),
      otherRole: await client.subscribe({ accounts: { include: [address], roles: { source: address } } }),
      again: await client.subscribe(include),
    };
    assert.equal(new Set(Object.values(ids)).size, Object.keys(ids).length);
    const signature = await pay(to, 1_000_000);
    const failed = await pay(to, 2_000_000, { isBad: true });
    await chain.seal(2);
    await until('both payments', () => client.of(ids.failed).length === 2);
    const [one] = client.of(ids.full);
    const { transaction, instructions, matchedIndexes } = one.value;
    assert.deepEqual(Object.keys(one.value), ['transaction', 'instructions', 'matchedIndexes']);
    assert.equal(one.context.slot, transaction.slot);
    assert.deepEqual(Object.keys(transaction), [
      'signature',
      'slot',
      'blockTime',
      'feePayer',
      'fee',
      'accountKeys',
      'status',
      'error',
      'summary',
      'nativeTransfers',
      'tokenTransfers',
    ]);
    assert.deepEqual(
      [transaction.signature, transaction.blockTime, transaction.status, transaction.error, transaction.feePayer],
      [signature, null, 'ok', null, from],
    );
    assert.ok(transaction.accountKeys.includes(address));
    assert.deepEqual(matchedIndexes, [0]);
    assert.deepEqual(
      instructions.map((each: Json) => [
        each.programId,
        each.decoded === null,
        'rawData' in each,
        'rawAccounts' in each,
      ]),
      [
        [SYSTEM, false, false, false],
        [MEMO.toBase58(), false, false, false],
      ],
    );
    assert.deepEqual(
      [instructions[0].instructionName, instructions[0].decoded.args],
      ['transfer', { amount: '1000000' }],
    );
    const [matched] = client.of(ids.matched);
    assert.deepEqual(matched, { ...one, value: { transaction, instructions: [instructions[0]] } });
    assert.deepEqual(client.of(ids.again), client.of(ids.full));
    const names = Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, client.of(id).length]));
    assert.deepEqual(names, {
      full: 1,
      matched: 1,
      raw: 1,
      role: 1,
      failed: 2,
      never: 0,
      otherName: 0,
      otherRole: 0,
      again: 1,
    });
    const second = client.of(ids.failed)[1].value.transaction;
    assert.deepEqual([second.signature, second.status, typeof second.error], [failed, 'error', 'object']);
    const left = await client.call('parsedTransactionUnsubscribe', [ids.full]);
    assert.equal(left.result, true);
    await pay(to, 3_000_000);
    await chain.seal(1);
    await until('the third payment', () => client.of(ids.again).length === 2);
    assert.equal(client.of(ids.full).length, 1);
  });

  test('raw has positions and data; each notification costs a credit, whatever its size', async (t) => {
    const client = await connect(t);
    const to = Keypair.generate().publicKey;
    const id = await client.subscribe({ accounts: { include: [to.toBase58()] } }, { details: 'raw' });
    const used = await credits();
    for (let turn = 1; turn <= 5; turn++) await pay(to, 1_000_000 * turn);
    await chain.seal(1);
    await until('the payments', () => client.of(id).length === 5);
    const [one] = client.of(id);
    assert.deepEqual(Object.keys(one.value.transaction), [
      'signature',
      'slot',
      'blockTime',
      'feePayer',
      'fee',
      'status',
      'error',
      'summary',
    ]);
    assert.deepEqual(Object.keys(one.value.instructions[0]), [
      'instructionIndex',
      'innerInstructionIndex',
      'stackHeight',
      'programId',
      'data',
    ]);
    for (let turn = 0; turn < 500 && (await credits()) < used + 5; turn++) await sleep(20);
    assert.equal(await credits(), used + 5);
  });

  test('errors name the wrong member, and limits have codes of their own', async (t) => {
    const client = await connect(t);
    const key = payer.publicKey.toBase58();
    const many = (count: number) => Array.from({ length: count }, () => Keypair.generate().publicKey.toBase58());
    const refused: [unknown[], number, string][] = [
      [[{ programs: [key, 'x'] }], -32_602, 'invalid pubkey at programs[1]'],
      [[{ accounts: { roles: { a: 'y' }, include: [key] } }], -32_602, 'invalid pubkey at accounts.roles.a'],
      [[{ programs: [key], other: 1 }], -32_602, 'unknown field `other` in filter'],
      [[{ programs: [key], includeCpi: null }], -32_602, 'includeCpi must not be null; leave it out'],
      [[{ instructionNames: ['a'] }], -32_602, 'the filter must have `programs` or `accounts.include`'],
      [[{ programs: [key] }, { commitment: 'finalized' }], -32_602, 'commitment must be confirmed'],
      [[{ programs: [key] }, { details: 'all' }], -32_602, 'details must be one of full, matched, raw'],
      [[], -32_602, 'filter must be an object'],
      [[{ programs: many(11) }], -32_000, 'at most 10 programs, got 11'],
      [[{ accounts: { include: many(101) } }], -32_000, 'at most 100 accounts.include, got 101'],
    ];
    for (const [params, code, message] of refused) {
      const { error } = await client.call(SUBSCRIBE, params);
      assert.deepEqual([error?.code, error?.message], [code, message], JSON.stringify(params).slice(0, 100));
    }
    await sleep(1_000);
    for (let one = 0; one < 25; one++) await client.subscribe({ programs: [key] });
    const { error } = await client.call(SUBSCRIBE, [{ programs: [key] }]);
    assert.deepEqual([error.code, error.message], [-32_006, 'at most 25 subscriptions per connection']);
    const answers = await Promise.all(Array.from({ length: 60 }, () => client.call(SUBSCRIBE, [{}])));
    assert.ok(answers.some((one) => one.error.code === -32_002 && /^Rate limited/.test(one.error.message)));
  });

  test('all calls of a client with such a subscription count against its rate, those of other clients do not', async (t) => {
    const [parsed, other] = [await connect(t), await connect(t)];
    const key = payer.publicKey.toBase58();
    await parsed.subscribe({ programs: [key] });
    const calls: readonly (readonly [string, unknown[]])[] = [
      ['describeProgram', [{ program: SYSTEM }]],
      ['ping', []],
    ];
    for (const [method, params] of calls) {
      await sleep(1_000);
      const askMany = (client: typeof parsed) =>
        Promise.all(Array.from({ length: 60 }, () => client.call(method, params)));
      const [limited, free] = [await askMany(parsed), await askMany(other)];
      const isLimited = ({ error }: Json) => error?.code === -32_002 && /^Rate limited: 40/.test(error.message);
      const refused = limited.filter(({ error }: Json) => error !== undefined);
      assert.ok(
        refused.length >= 10 && refused.length < 30 && refused.every(isLimited),
        `${method}: ${refused.length}`,
      );
      assert.deepEqual(free.filter(isLimited), [], method);
    }
    // Calls of other methods have the rates of the plan alone.
    const slots = await Promise.all(Array.from({ length: 60 }, () => parsed.call('getSlot', [])));
    assert.deepEqual(
      slots.filter(({ error }: Json) => error?.code === -32_002),
      [],
    );
  });

  test('a client that has written nothing for too long is closed with 1000, and one that pings is not', async (t) => {
    const [silent, alive] = [await connect(t), await connect(t)];
    for (const one of [silent, alive]) await one.subscribe({ programs: [payer.publicKey.toBase58()] });
    silent.stop();
    assert.deepEqual(await silent.closed, { code: 1_000, reason: 'no message for 3 s' });
    assert.equal(alive.socket.readyState, WebSocket.OPEN);
  });

  test('fromSlot: what was, then what comes, each once and in order, also over a fork', async (t) => {
    const live = await connect(t);
    const to = Keypair.generate().publicKey;
    const filter = { programs: [SYSTEM], accounts: { include: [to.toBase58()] } };
    const id = await live.subscribe(filter, { details: 'matched' });
    const sent = new Set<string>();
    let amount = 1_000_000;
    const run = async (count: number) => {
      for (let turn = 0; turn < count; turn++) {
        amount += 1;
        sent.add(await pay(to, amount));
      }
    };
    await run(6);
    await chain.seal(2);
    const first = await until('the first', () => live.of(id)[0]);
    const replays = await Promise.all(
      [1, 2].map(async () => {
        const client = await connect(t);
        return { client, id: await client.subscribe(filter, { details: 'matched', fromSlot: first.context.slot }) };
      }),
    );
    await run(4);
    await chain.fork({ depth: 2, replay: 'all', extraBlocks: 1, gap: 1 });
    await run(4);
    await chain.seal(2);
    const signatures = (list: Json[]) => list.map((one) => one.value.transaction.signature);
    const places = (list: Json[]) => list.map((one) => `${one.context.slot} ${one.value.transaction.signature}`);
    for (const { client, id: own } of [...replays, { client: live, id }]) {
      await until('all of them', () => [...sent].every((one) => signatures(client.of(own)).includes(one)));
      const got = places(client.of(own));
      assert.equal(new Set(got).size, got.length, 'none is doubled');
    }
    const tooOld = await live.call(SUBSCRIBE, [filter, { fromSlot: 0 }]);
    assert.equal(tooOld.error.code, -32_602);
  });

  test('a project is shown its own interfaces, also in a subscription that is open', async (t) => {
    const client = await connect(t);
    const to = Keypair.generate().publicKey;
    const id = await client.subscribe({ programs: [MEMO.toBase58()], instructionNames: ['payNote'] });
    const idls = (method: string, path = '', body?: unknown) =>
      fetch(`${daemon.apiUrl}/v1/parsed-events/idls${path}${path.includes('?') ? '&' : '?'}api-key=${daemon.key}`, {
        method,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
    const idl = {
      metadata: { name: 'notes' },
      instructions: [{ name: 'pay_note', discriminator: [...Buffer.from('pay ')], accounts: [], args: [] }],
    };
    const put = await idls('PUT', `/${MEMO.toBase58()}`, { idl });
    assert.equal(put.status, 200, await put.clone().text());
    assert.equal(((await put.json()) as Json).version, 1);
    const signature = await pay(to, 1_000_000);
    await chain.seal(1);
    // What was read within the last second is used, so the first may still be shown as before.
    await sleep(1_100);
    const second = await pay(to, 2_000_000);
    await chain.seal(1);
    const found = await until('the second', () =>
      client.of(id).find((one) => one.value.transaction.signature === second),
    );
    const shown = found.value.instructions[found.value.matchedIndexes[0]];
    assert.deepEqual([shown.programName, shown.instructionName], ['notes', 'pay_note']);
    const post = async () => {
      const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/transactions?api-key=${daemon.key}`, {
        method: 'POST',
        body: JSON.stringify({ transactions: [signature] }),
      });
      const [one] = (await response.json()) as Json;
      return one.parsed.instructions[1].instructionName;
    };
    assert.equal(await post(), 'pay_note');
    assert.equal((await idls('PUT', `/${MEMO.toBase58()}`, { idl: { instructions: 1 } })).status, 400);
    const listed = (await (await idls('GET')).json()) as Json;
    assert.deepEqual(
      listed.data.map((one: Json) => [one.programId, one.version, one.fromSlot, one.name]),
      [[MEMO.toBase58(), 1, 0, 'notes']],
    );
    assert.deepEqual(await (await idls('DELETE', `/${MEMO.toBase58()}`)).json(), { deleted: 1 });
    assert.equal((await idls('DELETE', `/${MEMO.toBase58()}`)).status, 404);
    assert.notEqual(await post(), 'pay_note');

    const refusal = async (path: string, one: unknown) => {
      const response = await idls('PUT', `/${path}`, { idl: one });
      return response.status === 200 ? 'taken' : [response.status, ((await response.json()) as Json).error];
    };
    const named = (name: string, docs: readonly string[] = []) => ({ ...idl, metadata: { name }, docs });
    const programs = [1, 2, 3].map(() => Keypair.generate().publicKey.toBase58());
    assert.equal(await refusal(programs[0]!, named('a')), 'taken');
    // A quarter of the cache or 8 MiB, at 24 bytes a character: the room of others is not taken.
    assert.deepEqual(await refusal(programs[0]!, named('b', ['x'.repeat(350_000)])), [
      400,
      'the interfaces of a project have at most 349504 bytes; delete some first',
    ]);
    assert.equal(await refusal(programs[0]!, named('b')), 'taken');
    assert.deepEqual(await refusal(programs[0]!, named('c')), [
      400,
      'a program has at most 2 versions; delete some first',
    ]);
    assert.equal(await refusal(programs[1]!, named('a')), 'taken');
    assert.deepEqual(await refusal(programs[2]!, named('a')), [
      400,
      'a project has interfaces of at most 2 programs; delete some first',
    ]);
    assert.deepEqual(await (await idls('DELETE', `/${programs[0]}?version=1`)).json(), { deleted: 1 });
    assert.equal(await refusal(programs[0]!, named('c')), 'taken');
  });

  test('describeProgram lists what filters may name; ping answers the slot; an account that is no program is refused', async (t) => {
    const client = await connect(t);
    const { result: system } = await client.call('describeProgram', [{ program: SYSTEM }]);
    assert.deepEqual([system.id, system.name, system.events], [SYSTEM, 'system', []]);
    assert.ok(system.instructions.includes('transfer') && system.roles.includes('source'));
    const program = Keypair.generate().publicKey.toBase58();
    const empty = { id: program, name: null, instructions: [], events: [], roles: [] };
    assert.deepEqual((await client.call('describeProgram', [{ program }])).result, empty);
    const idl = {
      metadata: { name: 'pool', version: '1.0.0', spec: '0.1.0' },
      address: MEMO.toBase58(),
      instructions: [
        {
          name: 'swapAll',
          discriminator: [1, 2, 3, 4, 5, 6, 7, 8],
          args: [],
          accounts: [
            { name: 'poolVault', writable: true },
            { name: 'user', signer: true },
          ],
        },
      ],
      events: [{ name: 'SwapEvent', discriminator: [8, 7, 6, 5, 4, 3, 2, 1] }, 5, { name: '' }],
    };
    const path = `${daemon.apiUrl}/v1/parsed-events/idls/${MEMO.toBase58()}?api-key=${daemon.key}`;
    for (const { programId } of (
      (await (await fetch(`${daemon.apiUrl}/v1/parsed-events/idls?api-key=${daemon.key}`)).json()) as Json
    ).data)
      await fetch(path.replace(MEMO.toBase58(), programId), { method: 'DELETE' });
    assert.equal((await fetch(path, { method: 'PUT', body: JSON.stringify({ idl }) })).status, 200);
    assert.deepEqual((await client.call('describeProgram', [{ program: MEMO.toBase58() }])).result, {
      id: MEMO.toBase58(),
      name: 'pool',
      instructions: ['swap_all'],
      events: ['swap_event'],
      roles: ['pool_vault', 'user'],
    });
    const { result: slot } = await client.call('ping', []);
    assert.ok(Math.abs(slot - (await chain.connection.getSlot('confirmed'))) <= 2, String(slot));
    for (const wrong of [[], [{}], [{ program: 'nonsense' }], [{ program, more: 1 }]])
      assert.equal((await client.call('describeProgram', wrong)).error.code, -32_602, JSON.stringify(wrong));
  });

  test('another plan ends with 1008 the connections that have such a subscription, and no others', async (t) => {
    const [parsed, left, other] = [await connect(t), await connect(t), await connect(t)];
    await parsed.subscribe({ programs: [payer.publicKey.toBase58()] });
    const id = await left.subscribe({ programs: [payer.publicKey.toBase58()] });
    assert.equal((await left.call('parsedTransactionUnsubscribe', [id])).result, true);
    const change = async (plan: string) => {
      const args = ['projects', 'set-plan', '--id', daemon.projectId, '--plan', plan, '--config', daemon.configFile];
      const { code, err } = await runCommand(args);
      assert.equal(code, 0, err);
    };
    await change('business');
    assert.deepEqual(await parsed.closed, { code: 1_008, reason: 'the plan of the project has changed' });
    // Whoever subscribes after that stays until the next change.
    const next = await connect(t);
    await next.subscribe({ programs: [payer.publicKey.toBase58()] });
    await left.subscribe({ programs: [payer.publicKey.toBase58()] });
    await change('unlimited');
    for (const one of [next, left]) assert.equal((await one.closed).code, 1_008);
    assert.equal(other.socket.readyState, WebSocket.OPEN);
  });
});
