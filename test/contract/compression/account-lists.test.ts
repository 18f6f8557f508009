import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type CompressedAccountRow,
  SUBJECT,
  type TokenAccountRow,
  u64Bytes,
} from '../../../plugins/compression/store/tables.ts';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createMethodBed, type MethodBed } from '../../helpers/compression-methods.ts';
import {
  accountRow,
  createCompressionTables,
  insertRows,
  keyOf,
  setHead,
  signatureOf,
  tokenRow,
  treeRow,
} from '../../helpers/compression-rows.ts';
import { eachStore } from '../../helpers/store.ts';

const OWNERS = [keyOf(10, 0), keyOf(10, 1)];
const MINTS = [keyOf(20, 0), keyOf(20, 1), keyOf(20, 2)];
const HEAD = 900;
const MAX_ROWS = 24;

interface Spec {
  readonly owner: number;
  readonly mint: number;
  readonly leafIndex: number;
  readonly tree: number;
  readonly spent: boolean;
  readonly delegated: boolean;
  readonly amount: bigint;
  readonly slot: number;
}

const spec: fc.Arbitrary<Spec> = fc.record({
  owner: fc.nat(1),
  mint: fc.nat(2),
  // Few values, so that many rows share theirs and the second column decides.
  leafIndex: fc.nat(5),
  tree: fc.integer({ min: 1, max: 2 }),
  spent: fc.boolean(),
  delegated: fc.boolean(),
  amount: fc.constantFrom(0n, 1n, 5n, 255n, 256n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n),
  slot: fc.integer({ min: 3, max: 6 }),
});

/** Hashes whose order is not the order in which they were made. */
const hashOf = (number: number) => keyOf(40 + ((number * 7) % 60), number);

interface World {
  readonly accounts: readonly CompressedAccountRow[];
  readonly tokens: readonly TokenAccountRow[];
}

function worldOf(specs: readonly Spec[]): World {
  const accounts = specs.map(({ owner, leafIndex, tree, spent, amount, slot }, number) =>
    accountRow(hashOf(number), {
      owner: OWNERS[owner]!,
      leaf_index: leafIndex,
      tree,
      lamports: u64Bytes(amount),
      spent: spent ? 1 : 0,
      slot_created: slot,
      created_by: signatureOf(number),
      discriminator: Buffer.alloc(8, 9),
      data: Buffer.of(number, leafIndex, 3, 4),
      data_hash: keyOf(5),
    }),
  );
  const tokens = specs.map(({ owner, mint, spent, delegated, amount }, number) =>
    tokenRow(hashOf(number), {
      owner: OWNERS[owner]!,
      mint: MINTS[mint]!,
      amount: u64Bytes(amount),
      spent: spent ? 1 : 0,
      delegate: delegated ? keyOf(30) : null,
    }),
  );
  return { accounts, tokens };
}

/** Balances as a sum would give them, without the check that they fit: amounts here may be huge. */
function balancesOf(specs: readonly Spec[]) {
  const rows = specs.filter(
    ({ owner, mint }, at) => specs.findIndex((o) => o.owner === owner && o.mint === mint) === at,
  );
  return rows.map(({ owner, mint, amount }) => ({
    owner: OWNERS[owner]!,
    mint: MINTS[mint]!,
    amount: u64Bytes(amount),
  }));
}

async function fill(store: Store, specs: readonly Spec[]): Promise<World> {
  const world = worldOf(specs);
  const signatures = specs.map(({ slot, owner }, number) => ({ slot, owner, signature: signatureOf(number) }));
  const subjects = [SUBJECT.owner, SUBJECT.address, SUBJECT.tokenOwner].flatMap((kind) =>
    signatures.map(({ slot, owner, signature }) => ({ kind, subject: OWNERS[owner]!, slot, signature })),
  );
  await store.write(async ({ db }) => {
    for (const table of Object.keys(await tableNames(db))) await db.deleteFrom(table).execute();
  });
  await insertRows(store, {
    compression_trees: [treeRow(1), treeRow(2, { type: 3 })],
    compression_accounts: world.accounts,
    compression_token_accounts: world.tokens,
    compression_token_balances: balancesOf(specs),
    compression_transactions: signatures.map(({ slot, signature }) => ({ slot, signature, error: null })),
    compression_subjects: subjects,
    compression_blocks: [3, 4, 5].map((slot) => ({ slot, block_time: slot * 10 })),
    compression_recent: [3, 4, 5, 6].map((slot) => ({
      slot,
      count: 2,
      block_time: null,
      body: JSON.stringify([
        [encode64(signatureOf(5_000 + slot)), null],
        [encode64(signatureOf(1_000_000 - slot)), '{"InstructionError":[0,"Custom"]}'],
      ]),
    })),
  });
  await setHead(store, HEAD);
  return world;
}

async function tableNames(db: Store['read']): Promise<Record<string, true>> {
  const tables = await db.introspection.getTables();
  return Object.fromEntries(
    tables.filter(({ name }) => name.startsWith('compression_')).map(({ name }) => [name, true]),
  );
}

interface ListAnswer {
  readonly context: { readonly slot: number };
  readonly value: { readonly items: readonly unknown[]; readonly cursor: string | null };
}

/** Every page of a list, one after the other. */
async function pages(bed: MethodBed, name: string, params: object, limit: number): Promise<unknown[]> {
  const items: unknown[] = [];
  for (let cursor: string | null = null; ; ) {
    const page: ListAnswer['value'] = listOf((await bed.call<ListAnswer>(name, { ...params, cursor, limit })).value);
    assert.ok(page.items.length <= limit);
    // A cursor was given because something follows.
    assert.ok(cursor === null || page.items.length > 0);
    items.push(...page.items);
    assert.ok(items.length <= MAX_ROWS, 'rows come again and again');
    if (page.cursor === null) return items;
    assert.equal(page.items.length, limit);
    cursor = page.cursor;
  }
}

/** The old name of one list. */
function listOf(value: object): ListAnswer['value'] {
  const { token_balances: items, ...rest } = value as { token_balances?: unknown[] };
  return (items === undefined ? value : { items, ...rest }) as ListAnswer['value'];
}

const byLeaf = (a: CompressedAccountRow, b: CompressedAccountRow) =>
  a.leaf_index - b.leaf_index || Buffer.compare(a.hash, b.hash);
const byMint = (a: TokenAccountRow, b: TokenAccountRow) =>
  Buffer.compare(a.mint, b.mint) || Buffer.compare(a.hash, b.hash);

/** A list, its params, and its items; of accounts only the hashes. */
type Expected = readonly [name: string, params: object, items: readonly unknown[]];

const hashes = (rows: readonly { readonly hash: Uint8Array }[]) => rows.map(({ hash }) => encode32(hash));
const isSame = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b) === 0;
const numberOf = (amount: Uint8Array) => Number(Buffer.from(amount).readBigUInt64BE());

function expectedAccounts({ accounts, tokens }: World, owner: Uint8Array, mint: Uint8Array): Expected[] {
  const own = accounts.filter((row) => row.spent === 0 && isSame(row.owner, owner)).sort(byLeaf);
  const held = tokens.filter((row) => row.spent === 0 && isSame(row.owner, owner)).sort(byMint);
  const lent = tokens.filter((row) => row.spent === 0 && row.delegate !== null).sort(byMint);
  const ofMint = (rows: readonly TokenAccountRow[]) => rows.filter((row) => isSame(row.mint, mint));
  const who = { owner: encode32(owner) };
  const delegate = { delegate: encode32(keyOf(30)) };
  const only = { mint: encode32(mint) };
  return ['', 'V2'].flatMap((version): Expected[] => [
    [`getCompressedAccountsByOwner${version}`, who, hashes(own)],
    [`getCompressedTokenAccountsByOwner${version}`, who, hashes(held)],
    [`getCompressedTokenAccountsByOwner${version}`, { ...who, ...only }, hashes(ofMint(held))],
    [`getCompressedTokenAccountsByDelegate${version}`, delegate, hashes(lent)],
    [`getCompressedTokenAccountsByDelegate${version}`, { ...delegate, ...only }, hashes(ofMint(lent))],
  ]);
}

function expectedBalances(specs: readonly Spec[], owner: Uint8Array, mint: Uint8Array): Expected[] {
  const rows = balancesOf(specs).filter(({ amount }) => numberOf(amount) > 0);
  const own = rows.filter((row) => isSame(row.owner, owner)).sort((a, b) => Buffer.compare(a.mint, b.mint));
  const holders = rows
    .filter((row) => isSame(row.mint, mint))
    .sort((a, b) => Buffer.compare(b.amount, a.amount) || Buffer.compare(b.owner, a.owner));
  const balances = own.map((row) => ({ mint: encode32(row.mint), balance: numberOf(row.amount) }));
  const who = { owner: encode32(owner) };
  return [
    ['getCompressedTokenBalancesByOwner', who, balances],
    ['getCompressedTokenBalancesByOwnerV2', who, balances],
    [
      'getCompressedMintTokenHolders',
      { mint: encode32(mint) },
      holders.map((row) => ({ owner: encode32(row.owner), balance: numberOf(row.amount) })),
    ],
  ];
}

function expectedSignatures(specs: readonly Spec[], owner: number): Expected[] {
  const newestFirst = specs
    .map(({ slot, owner: of }, number) => ({ slot, of, number }))
    .sort((a, b) => b.slot - a.slot || b.number - a.number)
    .map(({ slot, of, number }) => {
      const record = { signature: encode64(signatureOf(number)), slot, blockTime: slot === 6 ? 0 : slot * 10 };
      return { of, record };
    });
  const all = newestFirst.map(({ record }) => record);
  const own = newestFirst.filter(({ of }) => of === owner).map(({ record }) => record);
  const key = encode32(OWNERS[owner]!);
  return [
    ['getCompressionSignaturesForOwner', { owner: key }, own],
    ['getCompressionSignaturesForTokenOwner', { owner: key }, own],
    ['getCompressionSignaturesForAddress', { address: key }, own],
    ['getLatestCompressionSignatures', {}, all],
  ];
}

const shown = (item: unknown) => {
  const { hash, account } = item as { hash?: string; account?: { hash: string } };
  return hash ?? account?.hash ?? item;
};

eachStore('lists of compressed accounts', (engine) => {
  test('pages of every size are the whole list, in the one order that it has', async (t) => {
    const store = await engine.store(t);
    await createCompressionTables(store);
    const bed = createMethodBed(store);
    const [owner, mint] = [OWNERS[0]!, MINTS[1]!];
    const specs = fc.array(spec, { minLength: 1, maxLength: MAX_ROWS });
    await fc.assert(
      fc.asyncProperty(specs, fc.integer({ min: 2, max: 5 }), async (made, size) => {
        const world = await fill(store, made);
        const expected = [
          ...expectedAccounts(world, owner, mint),
          ...expectedBalances(made, owner, mint),
          ...expectedSignatures(made, 0),
        ];
        for (const [name, params, items] of expected) {
          const { context, value } = await bed.call<ListAnswer>(name, params);
          const whole = listOf(value);
          assert.deepEqual(whole.items.map(shown), items, name);
          assert.deepEqual([context.slot, whole.cursor], [HEAD, null], name);
          for (const limit of [1, size])
            assert.deepEqual(await pages(bed, name, params, limit), whole.items, `${name} by ${limit}`);
        }
      }),
      { numRuns: 8 },
    );
  });
});
