/** The history of addresses on the local chain, compared with a naive filter over all of its blocks, and with what owners hold. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { Keypair, LAMPORTS_PER_SOL, PublicKey, SystemProgram } from '@solana/web3.js';
import { parseExact, stringify } from '../../../src/lib/json.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { loadPackage } from '../../helpers/packages.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { until } from '../../helpers/until.ts';
import { signVersion1 } from '../../helpers/version-1.ts';
import { createEconomy, type Economy } from '../../helpers/wallet-economy.ts';

const sdk = await loadPackage('helius-sdk', () => import('helius-sdk'));

const SEED = 22;
const NATIVE = 'So11111111111111111111111111111111111111111';
const WRAPPED = 'So11111111111111111111111111111111111111112';
const missing = await chainMissing();

interface Reply {
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at as the assertions go.
  readonly result?: any;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: Record<string, unknown> };
}

interface TokenBalance {
  readonly accountIndex: number;
  readonly owner: string;
  readonly mint: string;
  readonly uiTokenAmount: { readonly amount: string };
}

/** A transaction as a block of the node shows it. */
interface Listed {
  readonly signature: string;
  readonly slot: number;
  readonly index: number;
  readonly time: number;
  readonly err: unknown;
  readonly keys: readonly string[];
  readonly pre: readonly TokenBalance[];
  readonly post: readonly TokenBalance[];
}

type Options = Readonly<Record<string, unknown>>;
type Filters = Readonly<Record<string, unknown>> & { readonly status?: string; readonly tokenAccounts?: string };

bySeed(60, ({ length: rounds }) =>
  suite('history of addresses', { skip: missing ?? false }, () => {
    let chain: TestChain;
    let daemon: DaemonInProcess;
    let economy: Economy;
    const { float } = createSfc32(SEED);
    const below = (count: number) => Math.floor(float() * count);

    const post = async (url: string, method: string, params: unknown) => {
      const body = stringify({ jsonrpc: '2.0', id: 1, method, params });
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(url, { method: 'POST', headers, body });
      return { status: response.status, headers: response.headers, reply: parseExact(await response.text()) as Reply };
    };
    const call = async (method: string, params: unknown): Promise<Reply> => {
      for (;;) {
        const { status, headers, reply } = await post(`${daemon.apiUrl}/?api-key=${daemon.key}`, method, params);
        if (status !== 503 || !headers.has('retry-after')) return reply;
        assert.equal(reply.error?.code, -32002);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    };
    const ask = async (method: string, params: unknown) => {
      const { result, error } = await call(method, params);
      assert.equal(error, undefined, JSON.stringify(error));
      return result;
    };
    const node = async (method: string, params: unknown) => (await post(chain.rpcUrl, method, params)).reply.result;

    /** All transactions of final blocks, oldest first. */
    async function listed(): Promise<Listed[]> {
      const finalSlot = (await node('getSlot', [{ commitment: 'finalized' }])) as number;
      const slots = (await node('getBlocks', [0, finalSlot])) as number[];
      const all: Listed[] = [];
      for (const slot of slots) {
        const block = await node('getBlock', [slot, { encoding: 'json', maxSupportedTransactionVersion: 1 }]);
        block.transactions.forEach((one: Record<string, never>, index: number) => {
          // biome-ignore lint/suspicious/noExplicitAny: as above.
          const { transaction, meta } = one as any;
          const { writable, readonly } = meta.loadedAddresses;
          const keys = [...transaction.message.accountKeys, ...writable, ...readonly];
          const common = {
            signature: transaction.signatures[0],
            slot,
            index,
            time: block.blockTime,
            err: meta.err,
            keys,
          };
          all.push({ ...common, pre: meta.preTokenBalances, post: meta.postTokenBalances });
        });
      }
      return all;
    }

    function isOf(address: string, { keys, pre, post: after }: Listed, tokenAccounts = 'none'): boolean {
      if (keys.includes(address)) return true;
      if (tokenAccounts === 'none') return false;
      const amounts = (list: readonly TokenBalance[]) =>
        new Map(
          list
            .filter(({ owner }) => owner === address)
            .map(({ accountIndex, uiTokenAmount }) => [accountIndex, uiTokenAmount.amount]),
        );
      const [was, is] = [amounts(pre), amounts(after)];
      if (tokenAccounts === 'all') return was.size + is.size > 0;
      return [...was.keys(), ...is.keys()].some((at) => (was.get(at) ?? '0') !== (is.get(at) ?? '0'));
    }

    const isWithin = (value: number, bounds: Readonly<Record<string, number>> = {}) =>
      Object.entries(bounds).every(([operator, bound]) => {
        if (operator === 'gt') return value > bound;
        if (operator === 'gte') return value >= bound;
        if (operator === 'lt') return value < bound;
        return operator === 'lte' ? value <= bound : value === bound;
      });

    function naive(all: readonly Listed[], address: string, filters: Filters, order: string): string[] {
      const place = new Map(all.map(({ signature }, at) => [signature, at]));
      const found = all.filter((one, at) => {
        const { slot, blockTime, signature = {} } = filters as Record<string, Record<string, never>>;
        const positions = Object.fromEntries(
          Object.entries(signature as Record<string, string>).map(([operator, text]) => [operator, place.get(text)!]),
        );
        return (
          isOf(address, one, filters.tokenAccounts) &&
          isWithin(one.slot, slot) &&
          isWithin(one.time, blockTime) &&
          isWithin(at, positions) &&
          (filters.status === undefined || (one.err === null) === (filters.status === 'succeeded'))
        );
      });
      const signatures = found.map(({ signature }) => signature);
      return order === 'asc' ? signatures : signatures.reverse();
    }

    /** All pages one after the other. `form` makes another accepted form of the token. */
    async function pages(
      method: string,
      address: string,
      options: Options,
      limits: readonly number[],
      form = (token: string, _last: { readonly signature: string }) => token,
      between: () => Promise<void> = async () => undefined,
      from: string | null = null,
    ) {
      // biome-ignore lint/suspicious/noExplicitAny: as above.
      const items: any[] = [];
      let token = from;
      for (let turn = 0; turn < 1_000; turn++) {
        const given: Options = { ...options, limit: limits[turn % limits.length], paginationToken: token };
        const page = await ask(method, [address, given]);
        items.push(...page.data);
        if (page.paginationToken === null) return items;
        token = form(page.paginationToken, page.data.at(-1));
        await between();
      }
      throw new Error('pages without an end');
    }

    const signaturesOf = (items: readonly { readonly signature: string }[]) => items.map(({ signature }) => signature);

    before(async () => {
      chain = await startChain();
      economy = await createEconomy(chain, SEED);
      await economy.run(40);
      // Lamports that a double cannot hold, a failed transaction, and one of version 1.
      const rich = Keypair.generate();
      await chain.setAccount(rich.publicKey.toBase58(), {
        lamports: 9_007_199_254_740_993n + 5_000_000_000_000n,
        owner: SystemProgram.programId.toBase58(),
        data: new Uint8Array(0),
      });
      const [wallet] = economy.wallets;
      const lamports = LAMPORTS_PER_SOL;
      const toPubkey = new PublicKey(wallet!);
      const pay = SystemProgram.transfer({ fromPubkey: rich.publicKey, toPubkey, lamports });
      const { blockhash } = await chain.connection.getLatestBlockhash();
      const { wire } = await signVersion1(rich, blockhash, [pay]);
      await chain.submitAll([wire]);
      await chain.seal(40);
      daemon = await startDaemon({
        chain,
        config: { plugins: ['access', 'token-metadata', 'wallet', 'history'], history: { scanLimit: 17 } },
      });
    });
    after(async () => {
      await daemon?.stop();
      await chain?.stop();
    });

    test('every filter in both orders finds what a search through all blocks finds', async () => {
      const all = await listed();
      const some = () => all[below(all.length)]!;
      const times = all.map(({ time }) => time);
      for (let round = 0; round < rounds; round++) {
        const address = economy.wallets[below(economy.wallets.length)]!;
        const order = float() < 0.5 ? 'asc' : 'desc';
        const [from, to] = [some(), some()];
        const filters: Filters = {
          ...(float() < 0.7 ? { tokenAccounts: ['none', 'balanceChanged', 'all'][below(3)]! } : {}),
          ...(float() < 0.4 ? { status: float() < 0.5 ? 'succeeded' : 'failed' } : {}),
          ...(float() < 0.3
            ? { slot: { [float() < 0.5 ? 'gt' : 'gte']: from.slot, [float() < 0.5 ? 'lt' : 'lte']: to.slot } }
            : {}),
          ...(float() < 0.3
            ? { blockTime: float() < 0.2 ? { eq: from.time } : { gte: times[0]! + below(10), lt: to.time } }
            : {}),
          ...(float() < 0.3
            ? {
                signature: {
                  [float() < 0.5 ? 'gt' : 'gte']: from.signature,
                  [float() < 0.5 ? 'lt' : 'lte']: to.signature,
                },
              }
            : {}),
        };
        const wanted = naive(all, address, filters, order);
        const form =
          float() < 0.3 && filters.status === undefined && filters['blockTime'] === undefined
            ? (_: string, last: { signature: string }) => last.signature
            : undefined;
        const items = await pages(
          'getTransactionsForAddress',
          address,
          { sortOrder: order, filters },
          [1 + below(7), 1 + below(40)],
          form,
        );
        assert.deepEqual(
          signaturesOf(items),
          wanted,
          `seed ${SEED}, round ${round}: ${JSON.stringify({ address, order, filters })}`,
        );
      }
    });

    test('entries have the members of the contract, and full ones are what the node returns', async () => {
      const [address] = economy.wallets as [string];
      const all = new Map((await listed()).map((one) => [one.signature, one]));
      const entries = await pages('getTransactionsForAddress', address, {}, [1_000]);
      assert.ok(entries.length > 20);
      const commitment = 'finalized';
      assert.equal(stringify(entries), stringify(await node('getSignaturesForAddress', [address, { commitment }])));
      for (const encoding of rounds < 10 ? ['jsonParsed'] : ['json', 'jsonParsed', 'base58', 'base64']) {
        const options = { encoding, maxSupportedTransactionVersion: 1, filters: { tokenAccounts: 'all' } };
        const full = await pages(
          'getTransactionsForAddress',
          address,
          { ...options, transactionDetails: 'full' },
          [100],
        );
        const wanted = naive([...all.values()], address, options.filters, 'desc');
        assert.equal(full.length, wanted.length);
        for (const [at, signature] of wanted.entries()) {
          const one = await node('getTransaction', [signature, { encoding, maxSupportedTransactionVersion: 1 }]);
          assert.equal(stringify(full[at]), stringify(one), `${encoding} ${signature}`);
        }
      }
    });

    test('a transaction of a version that the caller cannot read fails the call, and nothing is charged', async () => {
      const [address] = economy.wallets as [string];
      const usage = async () => {
        const response = await fetch(
          `${daemon.apiUrl}/v0/admin/projects/${daemon.projectId}/usage?api-key=${daemon.key}`,
        );
        return (await response.json()) as { credits: { archival: number }; requests: { archival: number } };
      };
      const start = await usage();
      const { error } = await call('getTransactionsForAddress', [address, { transactionDetails: 'full' }]);
      assert.equal(error?.code, -32015);
      assert.match(error?.message ?? '', /"maxSupportedTransactionVersion": 1/);
      assert.deepEqual((await usage()).credits.archival, start.credits.archival);
      // Charged by what is returned: 10 for up to 100.
      const full = {
        transactionDetails: 'full',
        limit: 1_000,
        maxSupportedTransactionVersion: 1,
        filters: { slot: { lt: 40 } },
      };
      await ask('getTransactionsForAddress', [address, full]);
      await ask('getTransactionsForAddress', [address]);
      await ask('getTransfersByAddress', [address]);
      assert.equal((await usage()).credits.archival - start.credits.archival, 30);
      assert.equal((await usage()).requests.archival - start.requests.archival, 3);
    });

    test('helius-sdk pages through both methods', { skip: sdk.skip }, async () => {
      const [address] = economy.wallets as [string];
      const helius = sdk.module.createHelius({ apiKey: daemon.key, baseUrl: daemon.apiUrl } as never);
      const filters = { tokenAccounts: 'all', status: 'succeeded' } as const;
      const found: string[] = [];
      for (let token: string | null | undefined; token !== null; ) {
        const page = await helius.getTransactionsForAddress([
          address,
          { sortOrder: 'asc', limit: 9, filters, paginationToken: token ?? null },
        ]);
        found.push(...signaturesOf(page.data as never));
        token = page.paginationToken;
      }
      assert.deepEqual(found, naive(await listed(), address, filters, 'asc'));
      const page = await helius.getTransfersByAddress([address, { limit: 5 }]);
      assert.equal(page.data.length, 5);
      assert.match(page.paginationToken ?? '', /^\d+:\d+:\d+:\d+:\d+$/);
    });

    /** All, or in a short run one. */
    const walletsOf = () => (rounds < 10 ? economy.wallets.slice(0, 1) : economy.wallets);

    test('transfers add up to what owners hold, in both orders and modes, page by page', async () => {
      for (const address of walletsOf()) {
        const rows = await pages('getTransfersByAddress', address, { solMode: 'separate' }, [100]);
        const upwards = await pages(
          'getTransfersByAddress',
          address,
          { solMode: 'separate', sortOrder: 'asc' },
          [3, 7],
        );
        assert.deepEqual(upwards.toReversed(), rows);
        const held = new Map<string, bigint>();
        for (const { mint, amount, feeAmount = '0', fromUserAccount, toUserAccount } of rows) {
          const add = (raw: bigint) => held.set(mint, (held.get(mint) ?? 0n) + raw);
          if (fromUserAccount === address) add(-BigInt(amount));
          if (toUserAccount === address) add(BigInt(amount) - BigInt(feeAmount));
        }
        const truth = [...economy.truth].at(-1)![1].get(address)!;
        for (const { mint } of economy.mints)
          if (mint !== WRAPPED) assert.equal(held.get(mint) ?? 0n, truth.get(mint) ?? 0n, `${address} ${mint}`);
        const merged = await pages('getTransfersByAddress', address, {}, [11]);
        assert.ok(merged.every(({ type, mint }) => type !== 'wrap' && type !== 'unwrap' && mint !== WRAPPED));
        const where = {
          direction: 'in',
          mint: NATIVE,
          filters: { amount: { gte: 1_000, lt: 9_007_199_254_740_993n } },
        };
        assert.deepEqual(
          await pages('getTransfersByAddress', address, where, [4]),
          merged.filter(
            ({ toUserAccount, mint, amount }) =>
              toUserAccount === address && mint === NATIVE && Number(amount) >= 1_000,
          ),
        );
        const types = new Set(rows.map(({ type }) => type));
        assert.ok(types.has('transfer'), [...types].join());
      }
    });

    test('the pages of transfers behind a row have all rows behind it that their own bounds let through', async () => {
      for (const address of walletsOf())
        for (const sortOrder of ['asc', 'desc']) {
          const rows = await pages('getTransfersByAddress', address, { sortOrder }, [100]);
          const [count, one, other] = [1 + below(3), below(rows.length), below(rows.length)];
          const { data, paginationToken } = await ask('getTransfersByAddress', [address, { sortOrder, limit: count }]);
          assert.deepEqual(data, rows.slice(0, data.length));
          for (const at of [0, one, other, rows.length - 1]) {
            const { slot } = rows[at];
            const isBehind = (row: { readonly slot: number }) =>
              sortOrder === 'asc' ? row.slot >= slot : row.slot <= slot;
            const given = { sortOrder, filters: { slot: sortOrder === 'asc' ? { gte: slot } : { lte: slot } } };
            assert.deepEqual(
              await pages('getTransfersByAddress', address, given, [100], undefined, undefined, paginationToken),
              rows.slice(data.length).filter(isBehind),
              `${address} ${sortOrder} ${paginationToken} ${slot}`,
            );
          }
        }
    });

    test('wrong parameters are refused with the member, and unknown ones are ignored', async () => {
      const [address] = economy.wallets as [string];
      const [, known] = signaturesOf((await ask('getTransactionsForAddress', [address, { limit: 2 }])).data);
      const unknown = '1'.repeat(64);
      for (const [method, params, code, words] of [
        ['getTransactionsForAddress', [], -32602, /params\[0\]/],
        ['getTransactionsForAddress', ['x'], -32602, /params\[0\]/],
        ['getTransactionsForAddress', { address }, -32602, /params\[0\]/],
        ['getTransactionsForAddress', [address, 7], -32602, /params\[1\]/],
        ['getTransactionsForAddress', [address, { limit: 0 }], -32602, /limit/],
        ['getTransactionsForAddress', [address, { limit: 1.5 }], -32602, /limit/],
        ['getTransactionsForAddress', [address, { commitment: 'processed' }], -32602, /below `confirmed`/],
        ['getTransactionsForAddress', [address, { transactionDetails: 'none' }], -32602, /transactionDetails/],
        ['getTransactionsForAddress', [address, { paginationToken: '1:2:3' }], -32602, /paginationToken/],
        [
          'getTransactionsForAddress',
          [address, { beforeSlot: 5, filters: { slot: { lte: 4 } } }],
          -32602,
          /beforeSlot/,
        ],
        ['getTransactionsForAddress', [address, { filters: { signature: { eq: known } } }], -32602, /signature\.eq/],
        ['getTransactionsForAddress', [address, { filters: { slot: { gte: -1 } } }], -32602, /slot\.gte/],
        [
          'getTransactionsForAddress',
          [address, { filters: { tokenTransfer: { mint: 'y' } } }],
          -32602,
          /tokenTransfer\.mint/,
        ],
        ['getTransactionsForAddress', [address, { filters: { signature: { lt: unknown } } }], -32020, /not found/],
        ['getTransactionsForAddress', [address, { paginationToken: unknown }], -32020, /not found/],
        ['getTransactionsForAddress', [address, { minContextSlot: 999_999_999 }], -32016, /Minimum context slot/],
        ['getTransfersByAddress', [address, { limit: 101 }], -32602, /limit/],
        ['getTransfersByAddress', [address, { solMode: 'both' }], -32602, /solMode/],
        ['getTransfersByAddress', [address, { filters: { amount: { gt: 2n ** 64n } } }], -32602, /amount\.gt/],
        ['getTransfersByAddress', [address, { paginationToken: '5:3' }], -32602, /paginationToken/],
        ['getTransactionsForAddress', ['11111111111111111111111111111111'], -32602, /not indexed/],
      ] as const) {
        const { error } = await call(method, params);
        const text = `${error?.message} ${error?.data?.['details']}`;
        assert.equal(
          error?.code,
          code,
          `${JSON.stringify(params, (_, value) => (typeof value === 'bigint' ? String(value) : value))}: ${text}`,
        );
        assert.match(text, words);
      }
      const odd = { limit: 5_000, other: 1, filters: { more: 2 }, beforeSlot: 60, untilSlot: 20 };
      const same = { filters: { slot: { lt: 60, gt: 20 } } };
      assert.deepEqual(
        await ask('getTransactionsForAddress', [address, odd]),
        await ask('getTransactionsForAddress', [address, same]),
      );
    });

    test('pages of final transactions lose and repeat nothing while the chain grows and forks', async () => {
      const [address] = economy.wallets as [string];
      const options = { sortOrder: 'asc', filters: { tokenAccounts: 'all' } };
      let turns = 0;
      const grow = async () => {
        turns += 1;
        if (turns > 12) return;
        await economy.run(2);
        if (turns % 3 === 0)
          await chain.fork({ depth: 1 + below(6), replay: (['all', 'none', 'reverse'] as const)[below(3)]! });
        await chain.seal(turns % 4 === 0 ? 40 : 3);
      };
      const items = await pages('getTransactionsForAddress', address, options, [5, 2], undefined, grow);
      await chain.seal(40);
      // The daemon hears a moment later what is final.
      const minContextSlot = await node('getSlot', [{ commitment: 'finalized' }]);
      const first = [address, { minContextSlot, limit: 1 }];
      await until(async () => (await call('getTransactionsForAddress', first)).error?.code !== -32016);
      const rest = await pages(
        'getTransactionsForAddress',
        address,
        { ...options, filters: { ...options.filters, signature: { gt: items.at(-1).signature } } },
        [50],
      );
      const wanted = naive(await listed(), address, options.filters, 'asc');
      assert.deepEqual(signaturesOf([...items, ...rest]), wanted);
      const confirmed = await pages(
        'getTransactionsForAddress',
        address,
        { ...options, commitment: 'confirmed' },
        [30],
      );
      assert.deepEqual(signaturesOf(confirmed).slice(0, wanted.length), wanted);
    });
  }),
);
