/** Addresses that are never indexed, programs and busy accounts: a scan reads them page by page, as far as its budget and its window go. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { startDaemon, type TestDaemon } from '../../helpers/daemon.ts';
import { entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { type NodeTransaction, type ParsedNode, startParsedNode } from './parsed-node.ts';

interface Answer {
  readonly error?: string;
  readonly details?: string;
  readonly data?: readonly { readonly signature: string }[];
  readonly paginationToken?: string;
  readonly scan?: {
    readonly stoppedOn: string;
    readonly scannedTransactions: number;
    readonly matchedTransactions: number;
    readonly creditsCharged: number;
  };
}

interface Balance {
  readonly owner: string;
  readonly uiTokenAmount: { readonly amount: string };
}

/** Which signatures a list of the node begins below, and whether it says where a transaction stands in its block. */
interface NodeForm {
  readonly cursors: 'any' | 'own, others are unknown' | 'own, others end the list';
  readonly hasIndexes: boolean;
}

const key = (byte: number) => new Uint8Array(32).fill(byte);
const [PROGRAM, BUSY, OPEN_ACCOUNT, CLOSED_ACCOUNT, MINT, OTHER] = [70, 71, 72, 73, 74, 75].map(
  key,
) as Uint8Array[] as [Uint8Array, Uint8Array, Uint8Array, Uint8Array, Uint8Array, Uint8Array];
const OTHER_PROGRAM = key(76);
const addressOf = encode32;
const LOADER = 'BPFLoaderUpgradeab1e11111111111111111111111';
const FIRST_SLOT = 2_000;
/** One block a second. */
const SLOTS = 320;
const SEED = Number(process.env['PARHELION_TEST_SEED'] ?? 20_261_128);

function fill(node: ParsedNode, random: Sfc32): void {
  for (let slot = FIRST_SLOT; slot < FIRST_SLOT + SLOTS; slot += 1) {
    // Some blocks have nothing of these addresses, some are full of them.
    const count = slot % 60 === 0 ? 40 : random.below(3) === 0 ? 0 : random.between(1, 14);
    for (let at = 0; at < count; at += 1) {
      // Some transactions have only a token account of the busy one; the newest ones name it beside the closed account.
      const account = slot >= FIRST_SLOT + SLOTS - 2 ? CLOSED_ACCOUNT : [OPEN_ACCOUNT, CLOSED_ACCOUNT][random.below(9)];
      const isNamed = account === undefined || slot >= FIRST_SLOT + SLOTS - 2;
      const keys = [
        random.fill(new Uint8Array(32)),
        isNamed ? BUSY : OTHER,
        account ?? MINT,
        random.below(4) === 0 ? PROGRAM : OTHER_PROGRAM,
      ];
      const balance = (amount: number) => ({
        accountIndex: 2,
        mint: encode32(MINT),
        owner: encode32(BUSY),
        programId: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
        uiTokenAmount: { amount: String(amount), decimals: 0, uiAmount: amount, uiAmountString: String(amount) },
      });
      const hasFailed = random.below(5) === 0;
      // A failed transaction moves nothing.
      const amountAfter = hasFailed ? 1 : random.below(2);
      const { transaction, meta } = entryOf({
        message: sampleMessage({
          keys,
          instructions: [{ program: 3, accounts: Uint8Array.of(0, 1), data: Uint8Array.of(at & 3, 1) }],
        }),
        signatures: [random.fill(new Uint8Array(64))],
        meta: {
          err: hasFailed ? { InstructionError: [0, { Custom: 3 }] } : null,
          ...(account === undefined
            ? {}
            : { preTokenBalances: [balance(1)], postTokenBalances: [balance(amountAfter)] }),
        },
      }) as { transaction: [string, string]; meta: Record<string, unknown> };
      node.add(slot, { wire: transaction[0], meta });
    }
  }
  node.slot += 40;
}

/** Lists as an Agave node gives them, or a server that knows only the signatures of the address. */
function listBy(node: ParsedNode, { cursors, hasIndexes }: NodeForm): void {
  const newestFirst = (left: NodeTransaction, right: NodeTransaction) =>
    right.slot - left.slot || right.index - left.index;
  const all = [...node.transactions].sort(newestFirst);
  node.upstream.on('getSignaturesForAddress', ({ params }) => {
    const [address, { before: last, limit = 1_000 }] = params as [string, { before?: string; limit?: number }];
    const own = all.filter(({ addresses }) => addresses.has(address));
    const known = cursors === 'any' ? all : own;
    const place = last === undefined ? null : known.find(({ signature }) => signature === last);
    if (place === undefined) {
      if (cursors === 'own, others end the list') return { result: '[]' };
      const error = { code: -32_020, message: `Transaction ${last} not found` };
      return { chunks: [JSON.stringify({ jsonrpc: '2.0', id: 1, error })] };
    }
    const rows = own.filter((one) => place === null || newestFirst(one, place) > 0).slice(0, limit);
    return {
      result: JSON.stringify(
        rows.map(({ signature, slot, blockTime, one, index }) => ({
          signature,
          slot,
          blockTime,
          err: one.meta['err'],
          memo: null,
          confirmationStatus: 'finalized',
          ...(hasIndexes ? { transactionIndex: index } : {}),
        })),
      ),
    };
  });
}

const FORMS: readonly NodeForm[] = [
  { cursors: 'any', hasIndexes: true },
  { cursors: 'any', hasIndexes: false },
  { cursors: 'own, others are unknown', hasIndexes: true },
  { cursors: 'own, others end the list', hasIndexes: true },
];

for (const form of FORMS)
  describe(`a node whose lists begin below ${form.cursors}, ${form.hasIndexes ? 'with' : 'without'} places`, () => {
    const random = createSfc32(SEED);
    let daemon: TestDaemon;
    let node: ParsedNode;

    before(async () => {
      node = await startParsedNode();
      fill(node, random);
      listBy(node, form);
      const held = {
        pubkey: encode32(OPEN_ACCOUNT),
        account: { data: [Buffer.from(MINT).toString('base64'), 'base64'] },
      };
      node.upstream.on('getTokenAccountsByOwner', ({ params }) => {
        const [owner, { programId }] = params as [string, { programId: string }];
        const value = owner === addressOf(BUSY) && programId.startsWith('Tokenkeg') ? [held] : [];
        return { result: JSON.stringify({ context: { slot: node.slot }, value }) };
      });
      node.accounts.set(addressOf(PROGRAM), { owner: LOADER, data: Buffer.alloc(36), executable: true });
      daemon = await startDaemon({
        chain: { rpcUrl: node.upstream.url },
        config: {
          plugins: ['access', 'proxy', 'wallet', 'history', 'parsed'],
          wallet: { limits: { transactionsPerMinute: 60 } },
        },
      });
    });

    after(async () => {
      await daemon?.stop();
      await node?.upstream.stop();
    });

    async function post(path: string, body: unknown): Promise<{ readonly status: number; readonly json: Answer }> {
      const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/${path}?api-key=${daemon.key}`, {
        method: 'POST',
        body: JSON.stringify(body),
      });
      return { status: response.status, json: (await response.json()) as Answer };
    }

    interface Question {
      readonly address: string;
      readonly sortOrder: 'asc' | 'desc';
      readonly status: 'succeeded' | 'failed' | 'any';
      readonly slot?: { readonly gte: number; readonly lt: number };
      readonly time?: { readonly gt: number; readonly lte: number };
      readonly beforeSignature?: string;
      readonly afterSignature?: string;
      readonly tokenAccounts?: 'none' | 'balanceChanged' | 'all';
    }

    /** What the chain has for a question, in its order. */
    function expected(question: Question) {
      const { address, sortOrder, status, slot, time, beforeSignature, afterSignature, tokenAccounts } = question;
      /** With a token account of the address, whose balance changed or not. */
      const holds = ({ meta }: NodeTransaction['one']): boolean => {
        const [pre, post] = [meta['preTokenBalances'], meta['postTokenBalances']] as Balance[][];
        const own = pre!.filter(({ owner }) => owner === address);
        if (tokenAccounts === 'all') return own.length > 0;
        const isChanged = ({ uiTokenAmount: { amount } }: Balance) => post![0]!.uiTokenAmount.amount !== amount;
        return tokenAccounts === 'balanceChanged' && own.some(isChanged);
      };
      const positionOf = (one: NodeTransaction) => one.slot * 1_000 + one.index;
      const bound = (signature: string | undefined, open: number) =>
        signature === undefined ? open : positionOf(node.transactions.find((one) => one.signature === signature)!);
      const [low, high] = [bound(afterSignature, -1), bound(beforeSignature, Number.MAX_SAFE_INTEGER)];
      const rows = node.transactions
        .filter(({ addresses, one }) => addresses.has(address) || holds(one))
        .filter(({ one }) => status === 'any' || (one.meta['err'] === null) === (status === 'succeeded'))
        .filter((one) => slot === undefined || (one.slot >= slot.gte && one.slot < slot.lt))
        .filter((one) => time === undefined || (one.blockTime > time.gt && one.blockTime <= time.lte))
        .filter((one) => positionOf(one) > low && positionOf(one) < high)
        .sort((left, right) => positionOf(left) - positionOf(right));
      return sortOrder === 'asc' ? rows : rows.reverse();
    }

    function draw(): Question {
      const slot = () => FIRST_SLOT + random.below(SLOTS);
      const [one, other] = [slot(), slot()].sort((left, right) => left - right) as [number, number];
      const any = () => node.transactions[random.below(node.transactions.length)]!.signature;
      const base = {
        address: addressOf([PROGRAM, BUSY][random.below(2)]!),
        sortOrder: random.below(2) === 0 ? ('asc' as const) : ('desc' as const),
        status: (['succeeded', 'failed', 'any'] as const)[random.below(3)]!,
      };
      const time = { gt: 1_760_000_000 + one, lte: 1_760_000_000 + other };
      return [
        base,
        { ...base, slot: { gte: one, lt: other } },
        { ...base, time },
        { ...base, beforeSignature: any() },
        { ...base, afterSignature: any() },
        { ...base, tokenAccounts: 'all' as const },
        { ...base, tokenAccounts: 'balanceChanged' as const, slot: { gte: one, lt: other } },
      ][random.below(7)]!;
    }

    /** All pages of a scan. */
    async function walk(question: Question, limits: object, match: object) {
      const found: string[] = [];
      let [scanned, matched, pages] = [0, 0, 0];
      let paginationToken: string | undefined;
      do {
        const { status, json } = await post('scan', {
          ...question,
          ...limits,
          match,
          ...(paginationToken === undefined ? {} : { paginationToken }),
        });
        assert.equal(status, 200, `${JSON.stringify({ question, limits })}: ${json.error} ${json.details}`);
        found.push(...json.data!.map(({ signature }) => signature));
        scanned += json.scan!.scannedTransactions;
        matched += json.scan!.matchedTransactions;
        pages += 1;
        paginationToken = json.paginationToken;
        assert.equal(json.scan!.stoppedOn === 'windowEnd', paginationToken === undefined);
        assert.equal(json.scan!.creditsCharged, 10 + Math.ceil(json.scan!.scannedTransactions / 1_000));
      } while (paginationToken !== undefined);
      return { found, scanned, matched, pages };
    }

    test('the plugin wallet indexes neither of them', async () => {
      for (const [address, code] of [
        [PROGRAM, 'WALLET_NOT_A_WALLET'],
        [BUSY, 'WALLET_TOO_BUSY'],
      ] as const) {
        const path = `/v1/wallet/${addressOf(address)}/history?api-key=${daemon.key}`;
        const response = await fetch(`${daemon.apiUrl}${path}`);
        assert.equal(response.status, 400);
        assert.match(((await response.json()) as Answer).details!, new RegExp(code));
      }
    });

    test('the pages of a scan have each transaction once, in both orders, in any window', async () => {
      let paged = 0;
      for (let at = 0; at < 24; at += 1) {
        const question = draw();
        const wanted = expected(question);
        const most = [40, 150, 10_000][random.below(3)]!;
        const isBudget = random.below(2) === 0;
        const limits = isBudget ? { budget: { maxScannedTransactions: most } } : { limit: Math.min(100, most) };
        const programId = addressOf(PROGRAM);
        const match = { programs: [{ programId, scope: 'transaction' }] };
        const calling = wanted.filter(({ addresses }) => addresses.has(programId)).map(({ signature }) => signature);
        // A page that ends by its budget has at most as many matches as its limit.
        const shape = isBudget ? { returnShape: 'signatures' } : {};
        const { found, scanned, matched, pages } = await walk(question, { ...limits, ...shape }, match);
        assert.deepEqual(found, calling, `seed ${SEED}: ${JSON.stringify({ question, limits })}`);
        assert.equal(matched, calling.length);
        assert.equal(scanned, wanted.length);
        if (pages > 1) paged += 1;
      }
      assert.ok(paged > 5, `${paged} scans of several pages`);
    });

    test('a program matches its own instructions without a scope', async () => {
      const address = addressOf(PROGRAM);
      const question = { address, sortOrder: 'desc', status: 'succeeded' } as const;
      const { found } = await walk(question, { limit: 100 }, { programs: [{ programId: address }] });
      assert.deepEqual(
        found,
        expected(question).map(({ signature }) => signature),
      );
    });

    test('a budget of one transaction costs the node few calls, however busy the address is', async () => {
      const start = node.upstream.calls.length;
      const budget = { maxScannedTransactions: 1 };
      const match = { mints: [{ mint: 'So11111111111111111111111111111111111111111' }] };
      const { status, json } = await post('scan', { address: addressOf(BUSY), match, budget, returnShape: 'count' });
      assert.equal(status, 200, json.error);
      assert.deepEqual([json.scan!.stoppedOn, json.scan!.scannedTransactions], ['budget', 1]);
      assert.notEqual(json.paginationToken, undefined);
      assert.ok(node.upstream.calls.length - start < 60, `${node.upstream.calls.length - start} calls`);
    });

    test('the history of a busy account comes in pages; that of a program is refused', async () => {
      const found: string[] = [];
      let paginationToken: string | undefined;
      do {
        const token = paginationToken === undefined ? {} : { paginationToken };
        const { status, json } = await post('transaction-history', {
          address: addressOf(BUSY),
          slot: { gte: FIRST_SLOT + 100, lt: FIRST_SLOT + 130 },
          ...token,
        });
        assert.equal(status, 200, json.error);
        found.push(...json.data!.map(({ signature }) => signature));
        paginationToken = json.paginationToken;
      } while (paginationToken !== undefined);
      const question = { address: addressOf(BUSY), sortOrder: 'desc', status: 'succeeded' } as const;
      const slot = { gte: FIRST_SLOT + 100, lt: FIRST_SLOT + 130 };
      assert.deepEqual(
        found,
        expected({ ...question, slot }).map(({ signature }) => signature),
      );
      const refused = await post('transaction-history', { address: addressOf(PROGRAM) });
      assert.deepEqual([refused.status, refused.json.error], [400, 'Not a wallet']);
    });

    test('a slot that the node has not reached is refused', async () => {
      const match = { programs: [{ programId: addressOf(PROGRAM) }] };
      const { status, json } = await post('scan', {
        address: addressOf(PROGRAM),
        match,
        minContextSlot: node.slot + 1_000,
      });
      assert.equal(status, 400);
      assert.match(json.error!, /[Mm]inimum context slot/);
    });

    test('where the node has pruned the rest, the pages end with the reason', async () => {
      const first = FIRST_SLOT + 120;
      const [list, blocks] = [node.transactions.splice(0), node.transactions];
      blocks.push(...list.filter(({ slot }) => slot >= first));
      listBy(node, form);
      node.upstream.on('getFirstAvailableBlock', { result: String(first) });
      const address = addressOf(PROGRAM);
      const match = { programs: [{ programId: address }] };
      const question = { address, sortOrder: 'desc', status: 'any' } as const;
      const found: string[] = [];
      let body: object = { ...question, match };
      for (;;) {
        const { status, json } = await post('scan', body);
        if (status !== 200) {
          assert.deepEqual([status, json.error], [503, 'Incomplete history']);
          assert.match(json.details!, new RegExp(`no data before slot ${first}`));
          break;
        }
        found.push(...json.data!.map(({ signature }) => signature));
        assert.notEqual(json.paginationToken, undefined, 'a page that claims to be the last one');
        body = { ...question, match, paginationToken: json.paginationToken };
      }
      assert.deepEqual(
        found,
        expected(question).map(({ signature }) => signature),
      );
      const oldest = await post('scan', { ...question, sortOrder: 'asc', match });
      assert.deepEqual([oldest.status, oldest.json.error], [503, 'Incomplete history']);
      const inside = await post('scan', { ...question, sortOrder: 'asc', match, slot: { gte: first } });
      assert.equal(inside.status, 200, inside.json.error);
    });
  });
