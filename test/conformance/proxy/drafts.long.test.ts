/** Members and methods of drafts of the standard: nodes ignore or lack them; answers are compared with lists that every node gives. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { until } from '../../helpers/until.ts';
import { createEconomy, type Economy } from '../../helpers/wallet-economy.ts';

const SEED = 45;
const missing = await chainMissing();

interface Row {
  readonly signature: string;
  readonly slot: number;
}

interface Answer {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: { readonly details?: string } };
}

async function send(url: string, body: unknown): Promise<unknown> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  return (await fetch(url, init)).json();
}

const bodyOf = (method: string, params: readonly unknown[]) => ({ jsonrpc: '2.0', id: 1, method, params });

suite('drafts of the standard', { skip: missing ?? false }, () => {
  let chain: TestChain;
  let economy: Economy;
  const daemons: DaemonInProcess[] = [];
  const { float } = createSfc32(SEED);
  const below = (count: number) => Math.floor(float() * count);

  const urlOf = ({ apiUrl, key }: DaemonInProcess) => `${apiUrl}/?api-key=${key}`;
  const ask = async (daemon: DaemonInProcess, method: string, params: readonly unknown[]): Promise<Answer> =>
    (await send(urlOf(daemon), bodyOf(method, params))) as Answer;
  const node = async <T>(method: string, params: readonly unknown[]): Promise<T> =>
    ((await send(chain.rpcUrl, bodyOf(method, params))) as { result: T }).result;

  before(async () => {
    chain = await startChain();
    // One asks the node alone, the other one has a ledger.
    for (const hours of [0, 1])
      daemons.push(
        await startDaemon({
          chain,
          config: { plugins: ['access', 'proxy', 'wallet', 'history'], ledger: { retain: { hours } } },
        }),
      );
    const [, kept] = daemons as [DaemonInProcess, DaemonInProcess];
    const following = () => kept.daemon.load().chains[0]?.cursorSlot != null;
    await until(following, 'the daemon follows the chain');
    economy = await createEconomy(chain, SEED);
    await economy.run(40);
    await chain.skip(2);
    await economy.run(10);
    await chain.seal(3);
    const tip = await node<number>('getSlot', [{ commitment: 'confirmed' }]);
    await until(() => (kept.daemon.load().chains[0]?.cursorSlot ?? 0) >= tip, 'the ledger has the chain');
  });
  after(async () => {
    for (const one of daemons) await one.stop();
    await chain?.stop();
  });

  test('getSignaturesForAddress between slots is that part of the whole list', async () => {
    const confirmed = { commitment: 'confirmed' };
    for (const address of economy.wallets) {
      const whole = await node<readonly Row[]>('getSignaturesForAddress', [address, confirmed]);
      const tip = await node<number>('getSlot', [confirmed]);
      for (let round = 0; round < 12; round += 1) {
        const [one, other] = [0, 1].map(() => (whole[below(whole.length)]?.slot ?? tip) + below(3) - 1) as [
          number,
          number,
        ];
        const beforeSlot = float() < 0.7 ? one : null;
        const untilSlot = float() < 0.6 ? other : null;
        const start = beforeSlot === null && float() < 0.4 ? whole[below(whole.length)] : undefined;
        const limit = float() < 0.5 ? 1 + below(6) : undefined;
        const from = start === undefined ? 0 : whole.indexOf(start) + 1;
        const expected = whole
          .slice(from)
          .filter(({ slot }) => (beforeSlot === null || slot < beforeSlot) && (untilSlot === null || slot > untilSlot))
          .slice(0, limit);
        const options = { ...confirmed, beforeSlot, untilSlot, before: start?.signature, limit };
        for (const daemon of daemons) {
          const { result, error } = await ask(daemon, 'getSignaturesForAddress', [address, options]);
          assert.deepEqual(result, expected, `${JSON.stringify(options)} ${JSON.stringify(error)}`);
        }
      }
    }
  });

  test('bounds that contradict each other, are no slots or empty', async () => {
    const [address] = economy.wallets as [string];
    const [newest] = await node<readonly Row[]>('getSignaturesForAddress', [address, { commitment: 'confirmed' }]);
    const far = 10 ** 15;
    for (const daemon of daemons) {
      const details = async (options: object) => {
        const { error } = await ask(daemon, 'getSignaturesForAddress', [address, options]);
        return error?.code === -32602 ? (error.data?.details ?? error.message) : error;
      };
      assert.equal(await details({ beforeSlot: 5, before: newest!.signature }), 'beforeSlot excludes before');
      assert.equal(await details({ untilSlot: 5, until: newest!.signature }), 'untilSlot excludes until');
      for (const wrong of ['5', -1, 1.5, true, {}])
        assert.equal(await details({ beforeSlot: wrong }), 'beforeSlot has to be a slot', String(wrong));
      assert.match(String(await details({ beforeSlot: 5, limit: 0 })), /limit/);
      const rows = async (options: object) =>
        (await ask(daemon, 'getSignaturesForAddress', [address, { commitment: 'confirmed', ...options }])).result;
      const all = await rows({});
      assert.ok((all as readonly Row[]).length > 5);
      assert.deepEqual(await rows({ beforeSlot: 0 }), []);
      assert.deepEqual(await rows({ beforeSlot: newest!.slot, untilSlot: newest!.slot - 1 }), []);
      assert.deepEqual(await rows({ beforeSlot: 3, untilSlot: far }), []);
      assert.deepEqual(await rows({ beforeSlot: far }), all);
      assert.deepEqual(await rows({ untilSlot: 0 }), all);
    }
  });

  test('getTransaction with a slot is null in any other one', async () => {
    const [address] = economy.wallets as [string];
    const rows = await node<readonly Row[]>('getSignaturesForAddress', [address, { commitment: 'confirmed' }]);
    const options = { commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
    for (const daemon of daemons)
      for (const { signature, slot } of [rows[0]!, rows.at(-1)!]) {
        const get = async (more: object) => await ask(daemon, 'getTransaction', [signature, { ...options, ...more }]);
        const plain = (await get({})).result;
        assert.notEqual(plain, null);
        for (const same of [slot, null]) assert.deepEqual((await get({ slot: same })).result, plain);
        for (const other of [slot + 1, slot - 1, 0]) assert.equal((await get({ slot: other })).result, null);
        // The second time out of a cache.
        assert.equal((await get({ slot: 0 })).result, null);
        assert.equal((await get({ slot: 'x' })).error?.data?.details, 'slot has to be a slot');
        const batch = [bodyOf('getTransaction', [signature, { ...options, slot: slot + 1 }]), bodyOf('getSlot', [])];
        const [first, second] = (await send(urlOf(daemon), batch)) as Answer[];
        assert.equal(first?.result, null);
        assert.equal(typeof second?.result, 'number');
      }
  });

  test('getTokenAccountsByMint is getProgramAccounts with the mint in front', async () => {
    const [daemon] = daemons as [DaemonInProcess];
    let accounts = 0;
    for (const programId of [TOKEN_PROGRAM, TOKEN_2022_PROGRAM]) {
      const config = { encoding: 'jsonParsed' };
      const all = await node<readonly { pubkey: string; account: { data: { parsed: { type: string } } } }[]>(
        'getProgramAccounts',
        [programId, config],
      );
      const mints = all.filter(({ account }) => account.data.parsed.type === 'mint').map(({ pubkey }) => pubkey);
      for (const mint of mints.slice(0, 3))
        for (const options of [
          {},
          { encoding: 'base64' },
          { encoding: 'base64', dataSlice: { offset: 64, length: 8 } },
        ]) {
          const filters = [{ memcmp: { offset: 0, bytes: mint } }];
          const wanted = await node<{ value: unknown[] }>('getProgramAccounts', [
            programId,
            { encoding: 'base64', ...options, commitment: 'confirmed', withContext: true, filters },
          ]);
          const asked = { ...options, commitment: 'confirmed', ...(programId === TOKEN_PROGRAM ? {} : { programId }) };
          const { result, error } = await ask(daemon, 'getTokenAccountsByMint', [mint, asked]);
          assert.equal(error, undefined);
          assert.deepEqual((result as { value: unknown }).value, wanted.value);
          accounts += wanted.value.length;
        }
      for (const wrong of [{ programId: mints[0] ?? '1' }, { commitment: 'processed' }, { filters: [] }, 5]) {
        const { error } = await ask(daemon, 'getTokenAccountsByMint', [TOKEN_PROGRAM, wrong]);
        assert.equal(error?.code, -32602, JSON.stringify(wrong));
      }
    }
    assert.ok(accounts > 5, String(accounts));
    for (const params of [[], ['x'], [TOKEN_PROGRAM, {}, 3]])
      assert.equal((await ask(daemon, 'getTokenAccountsByMint', params)).error?.code, -32602);
  });
});
