import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { decode } from '../../../src/lib/base58.ts';
import type { ParsedTransaction } from '../../../src/solana/idl/parse-transaction.ts';
import { startDaemon, type TestDaemon } from '../../helpers/daemon.ts';
import { readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { type CaseTransaction, idlText, parseCase } from '../../helpers/parsed-cases.ts';
import { byCase } from '../../helpers/run-part.ts';
import { type NodeTransaction, type ParsedNode, startParsedNode } from './parsed-node.ts';

interface Cases {
  readonly addresses: Readonly<Record<string, string>>;
  readonly calls: readonly { readonly programId: string; readonly name: string; readonly data: string }[];
  readonly transactions: readonly CaseTransaction[];
}

interface Result {
  readonly signature: string;
  readonly slot: number;
  readonly parsed?: ParsedTransaction;
}

interface Answer {
  readonly error?: string;
  readonly details?: string;
  readonly data?: readonly Result[];
  readonly paginationToken?: string;
  readonly scan?: {
    readonly stoppedOn: string;
    readonly scannedTransactions: number;
    readonly matchedTransactions: number;
    readonly scannedThrough?: { readonly slot: number; readonly blockTime: number };
    readonly creditsCharged: number;
  };
}

const NATIVE = 'So11111111111111111111111111111111111111111';

byCase([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], (turns) =>
  describe('history and scan', { skip: skipWithoutFixtures }, () => {
    let daemon: TestDaemon;
    let node: ParsedNode;
    let cases: Cases;
    let placed: readonly NodeTransaction[];

    before(async () => {
      cases = readJsonFixture<Cases>('parsed/scan.json');
      node = await startParsedNode();
      placed = cases.transactions.map((one, at) => node.add(1_001 + (at >> 1), one));
      node.slot += 50;
      for (const { programId } of cases.calls) node.publish(programId, idlText(programId), 'anchor');
      daemon = await startDaemon({
        chain: { rpcUrl: node.upstream.url },
        config: { plugins: ['access', 'proxy', 'wallet', 'history', 'parsed'] },
      });
    });

    after(async () => {
      await daemon?.stop();
      await node?.upstream.stop();
    });

    async function post(path: string, body: unknown): Promise<{ readonly status: number; readonly json: Answer }> {
      for (let left = 100; ; left--) {
        const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/${path}?api-key=${daemon.key}`, {
          method: 'POST',
          body: JSON.stringify(body),
        });
        const json = (await response.json()) as Answer;
        // An address is indexed with the first call.
        if (response.status === 503 && response.headers.has('retry-after')) {
          assert.ok(left > 0, json.details);
          await new Promise((resolve) => setTimeout(resolve, 50));
          continue;
        }
        return { status: response.status, json };
      }
    }

    const history = (body: object) => post('transaction-history', body);
    const scan = (body: object) => post('scan', body);
    const signaturesOf = ({ json }: { json: Answer }) => json.data?.map(({ signature }) => signature);

    /** The transactions of an address, newest first, as the node has them. */
    function listed(address: string, status: 'succeeded' | 'failed' | 'any' = 'succeeded') {
      return placed
        .filter(({ addresses }) => addresses.has(address))
        .filter(({ one }) => status === 'any' || (one.meta['err'] === null) === (status === 'succeeded'))
        .sort((left, right) => right.slot - left.slot || right.index - left.index);
    }

    /** What the chapter says of a match, read from the JSON of the node. */
    function isMatch(
      { one }: NodeTransaction,
      address: string,
      {
        programs = [],
        mints = [],
      }: { programs?: readonly Filter[]; mints?: readonly { mint: string; scope?: string }[] },
    ): boolean {
      const { instructions } = parseCase(one as CaseTransaction, () => null);
      const { pre, keys } = balancesOf(one);
      const owned = pre.filter(({ owner, mint, account }) => [owner, mint, account].includes(address));
      const near = new Set([address, ...owned.map(({ account }) => account)]);
      const isProgram = ({ programId, scope = 'address', discriminators = [], names = [] }: Filter) =>
        instructions.some((item) => {
          if (item.programId !== programId) return false;
          if (scope === 'address' && programId !== address && !item.rawAccounts.some((key) => near.has(key)))
            return false;
          const data = Buffer.from(decode(item.rawData)!).toString('hex');
          const prefixes = [...discriminators, ...names.map((name) => dataOf(name))];
          return prefixes.length === 0 || prefixes.some((prefix) => data.startsWith(prefix));
        });
      const isMint = ({ mint, scope = 'address' }: { mint: string; scope?: string }) => {
        if (mint !== NATIVE)
          return pre.some((row) => row.mint === mint && (scope === 'transaction' || near.has(row.account)));
        const { preBalances, postBalances, fee } = one.meta as {
          preBalances: number[];
          postBalances: number[];
          fee: number;
        };
        return keys.some(
          (key, at) =>
            (scope === 'transaction' || key === address) &&
            postBalances[at]! + (at === 0 ? fee : 0) !== preBalances[at],
        );
      };
      return (programs.length === 0 || programs.some(isProgram)) && (mints.length === 0 || mints.some(isMint));
    }

    interface Filter {
      readonly programId: string;
      readonly scope?: string;
      readonly discriminators?: readonly string[];
      /** Names of `calls`, sent as `instructions`. */
      readonly names?: readonly string[];
    }

    const dataOf = (name: string) => cases.calls.find((call) => call.name === name)!.data.slice(0, 16);

    function balancesOf(one: NodeTransaction['one']) {
      const keys = [...placed.find((known) => known.one === one)!.addresses];
      const rows = ['preTokenBalances', 'postTokenBalances'].flatMap(
        (name) => one.meta[name] as { accountIndex: number; owner?: string; mint: string }[],
      );
      return {
        keys,
        pre: rows.map(({ accountIndex, owner, mint }) => ({ owner, mint, account: keys[accountIndex]! })),
      };
    }

    test('pages of a history contain each transaction once, in both orders', async () => {
      const wallet = cases.addresses['wallet']!;
      for (const status of ['succeeded', 'failed', 'any'] as const) {
        for (const sortOrder of ['desc', 'asc'] as const) {
          const wanted = listed(wallet, status).map(({ signature }) => signature);
          if (sortOrder === 'asc') wanted.reverse();
          const found: string[] = [];
          let paginationToken: string | undefined;
          do {
            const page = await history({
              address: wallet,
              status,
              sortOrder,
              limit: 7,
              ...(paginationToken === undefined ? {} : { paginationToken }),
            });
            assert.equal(page.status, 200, page.json.error);
            assert.ok(page.json.data!.length <= 7);
            found.push(...signaturesOf(page)!);
            paginationToken = page.json.paginationToken;
          } while (paginationToken !== undefined);
          assert.deepEqual(found, wanted, `${status} ${sortOrder}`);
        }
      }
    });

    test('bounds by signature, slot and time', async () => {
      const wallet = cases.addresses['wallet']!;
      const all = listed(wallet, 'any');
      const [newer, older] = [all[3]!, all[9]!];
      const inner = all.slice(4, 9).map(({ signature }) => signature);
      const common = { address: wallet, status: 'any' };
      assert.deepEqual(
        signaturesOf(await history({ ...common, beforeSignature: newer.signature, afterSignature: older.signature })),
        inner,
      );
      const slots = all.filter(({ slot }) => slot > older.slot && slot <= newer.slot).map(({ signature }) => signature);
      assert.deepEqual(signaturesOf(await history({ ...common, slot: { gt: older.slot, lte: newer.slot } })), slots);
      const time = { gt: older.blockTime, lte: newer.blockTime };
      assert.deepEqual(signaturesOf(await history({ ...common, time })), slots);
      assert.deepEqual((await history({ ...common, time: { gt: 4_000_000_000 } })).json, { data: [] });
    });

    test('instructions of a history are decoded', async () => {
      const { json } = await history({ address: cases.addresses['wallet']!, limit: 1, sortOrder: 'asc' });
      const [{ parsed }] = json.data as [Result];
      assert.ok(cases.calls.some(({ name }) => name === parsed!.instructions[0]!.instructionName));
    });

    test('a history shows what is shown of each signature', async () => {
      const address = cases.addresses['wallet']!;
      for (const rawTransaction of ['none', 'json', 'jsonParsed', 'base64']) {
        const { json } = await history({ address, status: 'any', rawTransaction });
        assert.ok(json.data!.length > 10);
        const transactions = json.data!.map(({ signature }) => signature);
        assert.deepEqual((await post('transactions', { transactions, rawTransaction })).json, json.data);
      }
    });

    test('a scan finds what a look at every transaction finds', async () => {
      const [join, leave, fund] = cases.calls as [Cases['calls'][0], Cases['calls'][0], Cases['calls'][0]];
      const matches: readonly Parameters<typeof isMatch>[2][] = [
        { programs: [{ programId: join.programId }] },
        { programs: [{ programId: join.programId, scope: 'transaction' }] },
        { programs: [{ programId: join.programId, names: [leave.name] }] },
        {
          programs: [
            { programId: join.programId, names: [join.name], discriminators: [dataOf(leave.name).slice(0, 6)] },
          ],
        },
        { programs: [{ programId: fund.programId, scope: 'transaction' }, { programId: join.programId }] },
        ...['mint', 'otherMint'].flatMap((name) => [
          { mints: [{ mint: cases.addresses[name]! }] },
          { mints: [{ mint: cases.addresses[name]!, scope: 'transaction' }] },
          {
            mints: [{ mint: cases.addresses[name]!, scope: 'transaction' }],
            programs: [{ programId: join.programId, scope: 'transaction' }],
          },
        ]),
        { mints: [{ mint: NATIVE }] },
        { mints: [{ mint: NATIVE, scope: 'transaction' }] },
      ];
      let some = 0;
      for (const [name, address] of Object.entries(cases.addresses)) {
        for (const match of matches.filter((_, at) => turns.includes(at % 10))) {
          const wanted = listed(address, 'any')
            .filter((one) => isMatch(one, address, match))
            .map(({ signature }) => signature);
          const programs = match.programs?.map(({ names, ...filter }) => ({
            ...filter,
            ...(names && { instructions: names }),
          }));
          const body = { address, status: 'any', match: { ...match, ...(programs && { programs }) } };
          const whole = await scan(body);
          assert.equal(whole.status, 200, whole.json.error);
          assert.deepEqual(signaturesOf(whole), wanted, `${name} ${JSON.stringify(match)}`);
          const counted = (await scan({ ...body, returnShape: 'count' })).json;
          assert.deepEqual([counted.data, counted.scan!.matchedTransactions], [undefined, wanted.length]);
          some += wanted.length;
        }
      }
      assert.ok(some > 5 * turns.length - 5, `${some} matches`);
    });

    test('a scan ends at its limit, its budget and the end, and its tokens lose nothing', async () => {
      const address = cases.addresses['wallet']!;
      const match = { programs: [{ programId: cases.calls[0]!.programId, scope: 'transaction' }] };
      const all = listed(address);
      const wanted = all.filter((one) => isMatch(one, address, match)).map(({ signature }) => signature);
      for (const limits of [{ limit: 2 }, { budget: { maxScannedTransactions: 3 } }]) {
        const found: string[] = [];
        let scanned = 0;
        let paginationToken: string | undefined;
        do {
          const { json, status } = await scan({
            address,
            match,
            ...limits,
            ...(paginationToken && { paginationToken }),
          });
          assert.equal(status, 200, json.error);
          found.push(...json.data!.map(({ signature }) => signature));
          scanned += json.scan!.scannedTransactions;
          paginationToken = json.paginationToken;
          const ends = 'limit' in limits ? 'limit' : 'budget';
          assert.equal(json.scan!.stoppedOn, paginationToken === undefined ? 'windowEnd' : ends);
          assert.equal(json.scan!.creditsCharged, json.scan!.scannedTransactions === 0 ? 10 : 11);
        } while (paginationToken !== undefined);
        assert.deepEqual(found, wanted);
        assert.equal(scanned, all.length);
      }
      const { json } = await scan({ address, match, returnShape: 'signatures', limit: 1 });
      assert.deepEqual(
        json.data!.map(({ signature }) => signature),
        wanted,
      );
      assert.deepEqual(Object.keys(json.data![0]!), ['signature', 'slot', 'transactionIndex', 'blockTime']);
      const oldest = all.at(-1)!;
      assert.deepEqual(json.scan!.scannedThrough, { slot: oldest.slot, blockTime: oldest.blockTime });
      const nothing = (await scan({ address, match, time: { gt: 4_000_000_000 } })).json;
      assert.deepEqual(nothing, {
        data: [],
        scan: { stoppedOn: 'windowEnd', scannedTransactions: 0, matchedTransactions: 0, creditsCharged: 10 },
      });
    });

    test('the address of a program can be searched, which no index has', async () => {
      const { programId } = cases.calls[0]!;
      node.accounts.set(programId, {
        owner: 'BPFLoaderUpgradeab1e11111111111111111111111',
        data: Buffer.alloc(36),
        executable: true,
      });
      try {
        const match = { programs: [{ programId }] };
        for (const sortOrder of ['desc', 'asc'] as const) {
          const wanted = listed(programId, 'any').map(({ signature }) => signature);
          if (sortOrder === 'asc') wanted.reverse();
          const found: string[] = [];
          let paginationToken: string | undefined;
          do {
            const token = paginationToken === undefined ? {} : { paginationToken };
            const { status, json } = await scan({
              address: programId,
              status: 'any',
              sortOrder,
              match,
              limit: 3,
              ...token,
            });
            assert.equal(status, 200, json.error);
            found.push(...json.data!.map(({ signature }) => signature));
            paginationToken = json.paginationToken;
          } while (paginationToken !== undefined);
          assert.deepEqual(found, wanted, sortOrder);
        }
      } finally {
        node.accounts.delete(programId);
      }
    });

    test('calls cost 10 credits, a scan more for what it searched', async () => {
      const address = cases.addresses['wallet']!;
      const usage = async (): Promise<number> => {
        const path = `/v0/admin/projects/${daemon.projectId}/usage`;
        const response = await fetch(`${daemon.apiUrl}${path}?api-key=${daemon.key}`);
        assert.equal(response.status, 200, await response.clone().text());
        return ((await response.json()) as { credits: { enhancedApi: number } }).credits.enhancedApi;
      };
      const { programId } = cases.calls[0]!;
      const match = { mints: [{ mint: NATIVE }] };
      const start = await usage();
      const answers = [
        await post('transactions', { transactions: [placed[0]!.signature] }),
        await history({ address }),
        await scan({ address, match }),
        await scan({ address, match, time: { gt: 4_000_000_000 } }),
        await scan({ address }),
        // The chain was asked for an interface with the name: it costs as much as a scan that found nothing to search.
        await scan({ address, match: { programs: [{ programId, instructions: ['no_such_name'] }] } }),
      ];
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200, 200, 200, 400, 400],
      );
      assert.equal((await usage()) - start, 10 + 10 + 11 + 10 + 10);
    });

    test('invalid scans are refused with the reason', async () => {
      const address = cases.addresses['wallet']!;
      const { programId } = cases.calls[0]!;
      const refused: readonly (readonly [object, RegExp])[] = [
        [{ address }, /match must be an object/],
        [{ address, match: {} }, /match must name/],
        [{ address, match: { programs: [{ programId }, { programId }] } }, /names one twice/],
        [{ address, match: { programs: [{ programId, instructions: ['no_such_name'] }] } }, /no interface of/],
        [{ address, match: { programs: [{ programId, discriminators: ['123'] }] } }, /1 to 8 bytes in hex/],
        [
          { address, match: { mints: [{ mint: NATIVE }] }, budget: { maxScannedTransactions: 10_001 } },
          /from 1 to 10000/,
        ],
        [{ address, match: { mints: [{ mint: NATIVE }] }, limit: 1.5 }, /limit must be a whole number/],
        [{ address, match: { mints: [{ mint: NATIVE }] }, slot: { gt: null } }, /gt must not be null/],
        [{ address, match: { mints: [{ mint: NATIVE, more: 1 }] } }, /unknown field `more`/],
        [{ address, match: { mints: [{ mint: NATIVE }] }, beforeSignature: '1'.repeat(64) }, /not found/],
      ];
      for (const [body, reason] of refused) {
        const { status, json } = await scan(body);
        assert.equal(status, 400, JSON.stringify(body));
        assert.match(json.error!, reason);
      }
    });
  }),
);
