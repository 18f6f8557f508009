/** What the blocks of the ledger say about the history of an address: times of blocks without one, and blocks that filled a gap. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { Keypair, LAMPORTS_PER_SOL, PublicKey } from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { until } from '../../helpers/until.ts';
import { walletClient } from '../../helpers/wallet-client.ts';

const FINALITY = 8;
const KEY = 'held-blocks-key';
const NOT_AVAILABLE = -32002;

interface Row {
  readonly signature: string;
  readonly slot: number;
  readonly blockTime: number | null;
}
interface Page {
  readonly data: readonly Row[];
  readonly paginationToken: string | null;
}
interface Reply {
  readonly result?: Page;
  readonly error?: { readonly code: number };
}
interface State {
  readonly cursorSlot: number | null;
  readonly finalizedSlot: number | null;
  readonly finalizedAgeMs: number | null;
  readonly openGaps: number;
  readonly gaps: readonly {
    readonly fromSlot: number;
    readonly toSlot: number;
    readonly processors: readonly string[];
  }[];
}

interface Bed {
  readonly chain: TestChain;
  start(): Promise<DaemonInProcess>;
}

function prepare(
  t: TestContext,
  chain: TestChain,
  plugins: readonly string[] = ['access', 'proxy', 'wallet', 'history', 'webhooks'],
): Bed {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-held-'));
  const daemons: DaemonInProcess[] = [];
  t.after(async () => {
    for (const daemon of daemons) await daemon.stop().catch(() => undefined);
    await chain.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    chain,
    async start() {
      const daemon = await startDaemon({
        chain,
        dataDir,
        key: KEY,
        config: {
          plugins,
          ledger: { retain: { hours: 1 } },
          proxy: { cache: { enabled: false } },
          follow: { auditIntervalMs: 100, pollMs: 50 },
        },
      });
      daemons.push(daemon);
      return daemon;
    },
  };
}

const stateOf = async ({ adminUrl }: DaemonInProcess): Promise<State> =>
  ((await (await fetch(`${adminUrl}/readyz`)).json()) as { chain: State[] }).chain[0]!;

async function slotOf(chain: TestChain, commitment: 'confirmed' | 'finalized'): Promise<number> {
  return await chain.connection.getSlot(commitment);
}

async function caughtUp({ chain }: Bed, daemon: DaemonInProcess): Promise<void> {
  const [tip, finalSlot] = [await slotOf(chain, 'confirmed'), await slotOf(chain, 'finalized')];
  await until(async () => {
    const { cursorSlot, finalizedSlot, finalizedAgeMs } = await stateOf(daemon);
    if (cursorSlot !== tip || finalizedSlot !== finalSlot) return false;
    assert.equal(typeof finalizedAgeMs, 'number');
    return true;
  }, 'the daemon has all blocks');
}

async function ask({ apiUrl }: DaemonInProcess, method: string, params: unknown): Promise<Reply> {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  return (await (await fetch(`${apiUrl}/?api-key=${KEY}`, { method: 'POST', headers, body })).json()) as Reply;
}

/** A page, once the index of the address covers it. */
async function pageOf(daemon: DaemonInProcess, method: string, params: unknown): Promise<Page> {
  return await until(
    async () => {
      const { result, error } = await ask(daemon, method, params);
      if (error !== undefined) assert.equal(error.code, NOT_AVAILABLE, JSON.stringify(error));
      return result;
    },
    `${method} ${JSON.stringify(params)}`,
  );
}

suite('blocks that the daemon holds', { skip: (await chainMissing()) ?? false }, () => {
  test('a transfer in a block without a time has the time of the nearest earlier block, whoever is in it', async (t) => {
    const bed = prepare(t, await startChain({ finalityDepth: FINALITY }));
    const { chain } = bed;
    const [asked, late, other] = Array.from({ length: 3 }, () => Keypair.generate().publicKey.toBase58());
    const daemon = await bed.start();
    await until(async () => (await stateOf(daemon)).cursorSlot !== null, 'the daemon follows the chain');
    const timeOf = async (slot: number) => (await chain.connection.getBlockTime(slot))!;
    const pay = async (address: string): Promise<number> => {
      await chain.fund(address, LAMPORTS_PER_SOL);
      return await slotOf(chain, 'confirmed');
    };
    await pay(asked!);
    await pay(late!);
    await caughtUp(bed, daemon);
    await pageOf(daemon, 'getTransfersByAddress', [asked, { commitment: 'confirmed' }]);
    // A block with a time and without the addresses, then three blocks without one.
    await chain.setTime((await timeOf(await slotOf(chain, 'confirmed'))) + 900);
    const timed = await pay(other!);
    const time = await timeOf(timed);
    chain.faults.set([
      { action: 'nullBlockTime', match: { method: 'getBlock', slots: [timed + 1, timed + 3] } },
      { action: 'nullBlockTime', match: { method: 'getTransaction' } },
      { action: 'rpcError', code: -32004, match: { method: 'getBlockTime' } },
    ]);
    const slots = [await pay(asked!), await pay(late!), await pay(asked!)];
    assert.deepEqual(slots, [timed + 1, timed + 2, timed + 3]);
    await chain.seal(FINALITY * 2);
    await caughtUp(bed, daemon);
    for (const [address, wanted] of [
      [asked!, [slots[2]!, slots[0]!]],
      [late!, [slots[1]!]],
    ] as const) {
      const { data } = await pageOf(daemon, 'getTransfersByAddress', [address]);
      const shown = data.filter(({ slot }) => slot > timed);
      assert.deepEqual(
        shown.map(({ slot, blockTime }) => [slot, blockTime]),
        wanted.map((slot) => [slot, time]),
      );
      const transfers = await walletClient(daemon).get<{ data: readonly { timestamp: number }[] }>(
        `${address}/transfers`,
      );
      for (const { timestamp } of transfers.data.slice(0, wanted.length)) assert.equal(timestamp, time);
    }
  });

  test('while a fork is not followed yet, the rows that are not final are those of the branch of the node', async (t) => {
    const bed = prepare(t, await startChain({ finalityDepth: FINALITY }));
    const { chain } = bed;
    const address = Keypair.generate().publicKey.toBase58();
    const pay = async (count: number) => {
      for (let at = 0; at < count; at += 1) await chain.fund(address, LAMPORTS_PER_SOL);
    };
    const daemon = await bed.start();
    await until(async () => (await stateOf(daemon)).cursorSlot !== null, 'the daemon follows the chain');
    await pay(12);
    await caughtUp(bed, daemon);
    await pageOf(daemon, 'getTransactionsForAddress', [address, { commitment: 'confirmed' }]);
    // Its index joins the blocks that are followed once these are final.
    await chain.seal(FINALITY * 2);
    await caughtUp(bed, daemon);
    await until(async () => {
      const { out } = await runCommand(['wallet', 'status', '--config', daemon.configFile]);
      return /current/.test(out);
    }, 'the index follows');
    await pay(6);
    await caughtUp(bed, daemon);
    const listed = async () =>
      (await chain.connection.getSignaturesForAddress(new PublicKey(address), {}, 'confirmed')).map(
        ({ signature }) => signature,
      );
    const before = await listed();
    const tip = await slotOf(chain, 'confirmed');
    // The daemon hears of the other branch, and cannot read its blocks.
    chain.faults.set([
      { action: 'rpcError', code: -32004, match: { method: 'getBlock', slots: [tip - 4, tip + 1_000] } },
    ]);
    await chain.fork({ depth: 5, replay: 'none', extraBlocks: 3 });
    await pay(6);
    const after = await listed();
    await until(async () => {
      const { data } = await pageOf(daemon, 'getTransactionsForAddress', [address, { commitment: 'confirmed' }]);
      const found = data.map(({ signature }) => signature);
      // Never the rows of one branch above those of the other.
      assert.deepEqual(found, found.includes(after[0]!) ? after : before);
      return found.includes(after[0]!);
    }, 'the rows of the other branch');
  });

  test('a gap that only the ledger lacks is on record, and is filled for good', async (t) => {
    const bed = prepare(t, await startChain({ finalityDepth: FINALITY }), ['access', 'proxy', 'wallet', 'history']);
    const { chain } = bed;
    const address = Keypair.generate().publicKey.toBase58();
    const pay = async (count: number) => {
      for (let at = 0; at < count; at += 1) await chain.fund(address, LAMPORTS_PER_SOL);
    };
    const first = await bed.start();
    await until(async () => (await stateOf(first)).cursorSlot !== null, 'the daemon follows the chain');
    await pay(6);
    await chain.seal(FINALITY * 2);
    await caughtUp(bed, first);
    const below = (await stateOf(first)).cursorSlot!;
    await first.stop();
    await pay(10);
    await chain.seal(FINALITY * 2);
    const start = await slotOf(chain, 'confirmed');
    const complete = await chain.connection.getSignaturesForAddress(new PublicKey(address), {}, 'finalized');
    const slots = await chain.connection.getBlocks(below, start);
    chain.faults.set([
      { action: 'rpcError', code: -32001, match: { method: 'getBlock', slots: [0, start - 1] } },
      { action: 'pruned', first: start },
    ]);
    await pay(1);
    await chain.seal(FINALITY * 2);
    const second = await bed.start();
    await caughtUp(bed, second);
    const { gaps, openGaps } = await stateOf(second);
    assert.equal(openGaps, 1);
    assert.deepEqual(
      gaps.map(({ fromSlot, toSlot, processors }) => ({ fromSlot, toSlot, processors })),
      [{ fromSlot: below + 1, toSlot: start - 1, processors: ['kernel.ledger'] }],
    );
    const lists = [
      ['getSignaturesForAddress', [address]],
      ['getBlocks', [below, start]],
      ['getBlocksWithLimit', [below, slots.length]],
    ] as const;
    for (const [method, params] of lists) {
      const { error } = await ask(second, method, params);
      assert.equal(error?.code, NOT_AVAILABLE, `${method} names what is missing`);
    }
    await second.stop();
    chain.faults.clear();
    const third = await bed.start();
    await until(async () => {
      const { out } = await runCommand(['backfill', '--list', '--json', '--config', third.configFile]);
      return (JSON.parse(out) as { readonly status: string }[]).every(({ status }) => status === 'filled');
    }, 'the gap is filled');
    await caughtUp(bed, third);
    // From now on nobody else has it.
    await chain.prune(await slotOf(chain, 'finalized'));
    const listed = await ask(third, 'getSignaturesForAddress', [address]);
    assert.equal(listed.error, undefined, JSON.stringify(listed.error));
    assert.deepEqual(
      (listed.result as unknown as Row[]).slice(1).map(({ signature }) => signature),
      complete.map(({ signature }) => signature),
    );
    for (const [method, params] of lists.slice(1)) assert.deepEqual((await ask(third, method, params)).result, slots);
  });

  test('a filled gap is a hole in the history of an address no longer', async (t) => {
    const bed = prepare(t, await startChain({ finalityDepth: FINALITY }));
    const { chain } = bed;
    const [asked, late] = Array.from({ length: 2 }, () => Keypair.generate().publicKey.toBase58());
    const signatures = new Map<string, string[]>();
    const pay = async (count: number) => {
      for (let at = 0; at < count; at += 1)
        for (const address of [asked!, late!])
          signatures.set(address, [await chain.fund(address, LAMPORTS_PER_SOL), ...(signatures.get(address) ?? [])]);
    };
    const first = await bed.start();
    await until(async () => (await stateOf(first)).cursorSlot !== null, 'the daemon follows the chain');
    await pay(6);
    await chain.seal(FINALITY * 2);
    await caughtUp(bed, first);
    await pageOf(first, 'getTransactionsForAddress', [asked]);
    await first.stop();
    await pay(10);
    await chain.seal(FINALITY * 2);
    const start = await slotOf(chain, 'confirmed');
    // What came while the daemon was off is gone from the node.
    chain.faults.set([
      { action: 'rpcError', code: -32001, match: { method: 'getBlock', slots: [0, start - 1] } },
      { action: 'pruned', first: start },
    ]);
    await pay(3);
    await chain.seal(FINALITY * 2);
    const second = await bed.start();
    await caughtUp(bed, second);
    await until(async () => (await stateOf(second)).openGaps > 0, 'the gap is on record');
    for (const address of [asked!, late!]) {
      const wanted = signatures.get(address)!;
      const seen = await ask(second, 'getTransactionsForAddress', [address]);
      // The rows above the gap with a token, or an error: never all of it.
      if (seen.result !== undefined) {
        assert.deepEqual(
          seen.result.data.map(({ signature }) => signature),
          wanted.slice(0, 3),
        );
        assert.notEqual(seen.result.paginationToken, null);
      }
    }
    await second.stop();
    chain.faults.clear();
    const third = await bed.start();
    await until(async () => {
      const { cursorSlot, openGaps } = await stateOf(third);
      return cursorSlot !== null && openGaps === 0;
    }, 'the gap is filled');
    for (const address of [asked!, late!])
      for (const sortOrder of ['desc', 'asc'])
        await until(async () => {
          const { result } = await ask(third, 'getTransactionsForAddress', [address, { sortOrder }]);
          const found = result?.data.map(({ signature }) => signature) ?? [];
          return (
            result?.paginationToken === null &&
            JSON.stringify(sortOrder === 'asc' ? found.toReversed() : found) === JSON.stringify(signatures.get(address))
          );
        }, `all rows of ${address}, ${sortOrder}`);
  });
});
