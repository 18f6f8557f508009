/**
 * The index of followed assets against the chain: after every block of random runs, with forks, passed over blocks and stops in mid-fill, it
 * answers what all accounts of the chain say, and asks nobody.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import {
  AuthorityType,
  createApproveInstruction,
  createBurnInstruction,
  createCloseAccountInstruction,
  createFreezeAccountInstruction,
  createInitializeAccount3Instruction,
  createInitializeMint2Instruction,
  createMintToInstruction,
  createSetAuthorityInstruction,
  createThawAccountInstruction,
  createTransferInstruction,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  Transaction,
  type TransactionInstruction,
} from '@solana/web3.js';
import { type DasConfig, dasConfig } from '../../../plugins/das/config.ts';
import { createAssetIndex } from '../../../plugins/das/indexing/asset-index.ts';
import { createFillJobs, fillFollowed, sweep } from '../../../plugins/das/indexing/fill.ts';
import { createDasProcessor } from '../../../plugins/das/indexing/processor.ts';
import {
  type AssetDb,
  BURNT,
  FLAG,
  FOLLOW_KINDS,
  type FollowKind,
  LIST,
  listKey,
  listName,
  migrations,
  readListed,
} from '../../../plugins/das/indexing/tables.ts';
import { FACTS, noteChanges } from '../../../plugins/das/indexing/write.ts';
import { assetsByAuthority, assetsByCreator, assetsByGroup, assetsByOwner } from '../../../plugins/das/lists.ts';
import { readQuestion } from '../../../plugins/das/params.ts';
import { keptText, readAssets } from '../../../plugins/das/read-assets.ts';
import { type AccountSource, createLackedMethods, createSource } from '../../../plugins/das/source.ts';
import { readTokenAccounts } from '../../../plugins/das/token-accounts.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { type ChainReader, CodedError, type NewJob, type StoreTx } from '../../../src/plugin/plugin.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { Store } from '../../../src/ports/store.ts';
import { decodeMint, decodeTokenAccount } from '../../../src/solana/accounts/token.ts';
import { metadataAddress } from '../../../src/solana/addresses.ts';
import type { Asset } from '../../../src/solana/assets/asset.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { CORE_PROGRAM, METADATA_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DasScenario, plainAnswer, recordedSource } from '../../helpers/das-recorded.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { byCase } from '../../helpers/run-part.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';

/** What random runs have found, and a short one. */
const RUNS = [
  { seed: 16, steps: 12 },
  { seed: 16, steps: 40 },
  { seed: 203, steps: 40 },
];
const config = { ...(Value.Default(dasConfig, {}) as DasConfig), dialect: 'metaplex' } as const;
const signal = new AbortController().signal;

type Rpc = <T>(method: string, params: readonly unknown[]) => Promise<T>;

function rpcOf(chain: TestChain): Rpc {
  return async <T>(method: string, params: readonly unknown[]) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(chain.rpcUrl, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    });
    const { result, error } = (await response.json()) as { result: T; error?: { code: number; message: string } };
    if (error === undefined) return result;
    throw new CodedError('CHAIN_RPC_ERROR', `${method}: ${error.message}`, { facts: { method, rpcCode: error.code } });
  };
}

/** All accounts of the programs, as an unfiltered getProgramAccounts has them. */
async function wholeChain(rpc: Rpc): Promise<DasScenario['accounts']> {
  const lists = await Promise.all(
    [TOKEN_PROGRAM, TOKEN_2022_PROGRAM, METADATA_PROGRAM, CORE_PROGRAM].map((program) =>
      rpc<readonly { pubkey: string; account: { owner: string; lamports: number; data: [string] } }[]>(
        'getProgramAccounts',
        [program, { encoding: 'base64', commitment: 'confirmed' }],
      ),
    ),
  );
  return lists.flat().map(({ pubkey, account: { owner, lamports, data } }) => ({
    pubkey,
    slot: 1,
    owner,
    lamports,
    dataBase64: data[0],
  }));
}

const nobody = new Proxy({} as AccountSource, {
  get: (_, name) =>
    name === 'slot' ? 0 : name === 'slotOf' ? () => 0 : () => assert.fail(`the index asked the chain: ${String(name)}`),
});

const keyBytes = (key: string) => decode32(key) as Uint8Array;
const text = (value: string) => Buffer.concat([Buffer.from([value.length, 0, 0, 0]), Buffer.from(value)]);

function metadataBytes(
  mint: string,
  by: { authority: string; creators: [string, boolean][]; group: [string, boolean] | null },
) {
  const pad = (value: string, length: number) =>
    Buffer.concat([Buffer.from(value), Buffer.alloc(length - value.length)]);
  const padded = (value: string, length: number) => Buffer.concat([Buffer.of(length, 0, 0, 0), pad(value, length)]);
  const { authority, creators, group } = by;
  return Buffer.concat([
    Buffer.of(4),
    keyBytes(authority),
    keyBytes(mint),
    padded('Name', 32),
    padded('SYM', 10),
    padded('', 200),
    Buffer.of(1, 0),
    ...(creators.length === 0
      ? [Buffer.of(0)]
      : [
          Buffer.of(1, creators.length, 0, 0, 0),
          ...creators.flatMap(([key, is]) => [keyBytes(key), Buffer.of(is ? 1 : 0, 10)]),
        ]),
    Buffer.of(0, 1, 1, 255, 1, 0),
    ...(group === null ? [Buffer.of(0)] : [Buffer.of(1, group[1] ? 1 : 0), keyBytes(group[0])]),
    Buffer.alloc(3),
  ]);
}

const newKey = (random: Sfc32) => Keypair.fromSeed(random.fill(new Uint8Array(32)));

async function createWorld(chain: TestChain, random: Sfc32) {
  const { connection } = chain;
  const payer = newKey(random);
  await chain.fund(payer.publicKey.toBase58(), 10_000 * LAMPORTS_PER_SOL);
  const wallets = Array.from({ length: 3 }, () => newKey(random));
  const people = Array.from({ length: 3 }, () => newKey(random).publicKey.toBase58());
  const groups = Array.from({ length: 3 }, () => newKey(random).publicKey.toBase58());
  const coreGroups: string[] = [];
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
  const rent = await connection.getMinimumBalanceForRentExemption(200);
  interface Token {
    readonly mint: Keypair;
    readonly program: PublicKey;
    readonly isNft: boolean;
    accounts: { readonly key: Keypair; owner: Keypair; amount: number }[];
  }
  const tokens: Token[] = [];
  const cores: string[] = [];

  async function send(instructions: readonly TransactionInstruction[], signers: readonly Keypair[]): Promise<void> {
    const transaction = new Transaction().add(...instructions);
    transaction.recentBlockhash = (await connection.getLatestBlockhash()).blockhash;
    transaction.feePayer = payer.publicKey;
    transaction.sign(payer, ...new Map(signers.map((one) => [one.publicKey.toBase58(), one])).values());
    await connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true });
  }
  let nonce = 0;
  /** What a program that is not on this chain leaves behind, and a transaction that names it. */
  async function write(program: string, address: string, data: Buffer | null): Promise<void> {
    await chain.setAccount(address, data === null ? null : { lamports: 1_000_000, owner: program, data });
    const pay = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: payer.publicKey, lamports: ++nonce });
    pay.keys.push({ pubkey: new PublicKey(program), isSigner: false, isWritable: false });
    pay.keys.push({ pubkey: new PublicKey(address), isSigner: false, isWritable: true });
    await send([pay], []);
  }
  const open = (size: number, key: Keypair, program: PublicKey) =>
    SystemProgram.createAccount({
      fromPubkey: payer.publicKey,
      newAccountPubkey: key.publicKey,
      space: size,
      lamports: rent,
      programId: program,
    });
  const writeMetadata = (mint: string) =>
    write(
      METADATA_PROGRAM,
      metadataAddress(mint),
      metadataBytes(mint, {
        authority: pick(people),
        creators: Array.from({ length: random.below(3) }, (_, at) => [
          people[(at + random.below(2)) % 3]!,
          random.below(2) === 0,
        ]),
        group: random.below(4) === 0 ? null : [pick(groups), random.below(4) > 0],
      }),
    );
  async function mintOne(): Promise<void> {
    const isNft = random.below(3) > 0;
    const program = random.below(4) === 0 ? TOKEN_2022_PROGRAM_ID : TOKEN_PROGRAM_ID;
    const [mint, account, owner] = [newKey(random), newKey(random), pick(wallets)];
    const freeze = payer.publicKey;
    await send(
      [
        open(82, mint, program),
        createInitializeMint2Instruction(mint.publicKey, isNft ? 0 : 6, payer.publicKey, freeze, program),
        open(165, account, program),
        createInitializeAccount3Instruction(account.publicKey, mint.publicKey, owner.publicKey, program),
        createMintToInstruction(mint.publicKey, account.publicKey, payer.publicKey, isNft ? 1 : 1_000, [], program),
        ...(isNft
          ? [
              createSetAuthorityInstruction(
                mint.publicKey,
                payer.publicKey,
                AuthorityType.MintTokens,
                null,
                [],
                program,
              ),
            ]
          : []),
      ],
      [mint, account],
    );
    tokens.push({ mint, program, isNft, accounts: [{ key: account, owner, amount: isNft ? 1 : 1_000 }] });
    if (random.below(4) > 0) await writeMetadata(mint.publicKey.toBase58());
  }
  async function move(): Promise<void> {
    const token = pick(tokens);
    const from = token?.isNft === true ? token.accounts.at(-1) : token === undefined ? undefined : pick(token.accounts);
    if (token === undefined || from === undefined) return await mintOne();
    const { program, isNft } = token;
    const [to, owner] = [newKey(random), pick(wallets)];
    const { publicKey: mint } = token.mint;
    // Halves are equal to what is left.
    const amount = isNft
      ? 1
      : pick([1 + random.below(3), from.amount >> 1, Math.abs(from.amount - 1), from.amount]) || 1;
    const signers = [from.owner];
    switch (random.below(9)) {
      case 0:
        await send(
          [
            createApproveInstruction(
              from.key.publicKey,
              wallets[0]!.publicKey,
              from.owner.publicKey,
              amount,
              [],
              program,
            ),
          ],
          signers,
        );
        return;
      case 1:
        await send([createFreezeAccountInstruction(from.key.publicKey, mint, payer.publicKey, [], program)], []);
        await send([createThawAccountInstruction(from.key.publicKey, mint, payer.publicKey, [], program)], []);
        return;
      case 2:
        await send(
          [createBurnInstruction(from.key.publicKey, mint, from.owner.publicKey, amount, [], program)],
          signers,
        );
        from.amount -= amount;
        if (isNft) token.accounts = [];
        return;
      case 4: {
        // Of another asset from the middle of the transaction on.
        const other = pick(tokens.filter((one) => one.program === program));
        const more = other.isNft ? 0 : 1 + random.below(500);
        await send(
          [
            createBurnInstruction(from.key.publicKey, mint, from.owner.publicKey, from.amount, [], program),
            createCloseAccountInstruction(from.key.publicKey, payer.publicKey, from.owner.publicKey, [], program),
            open(165, from.key, program),
            createInitializeAccount3Instruction(from.key.publicKey, other.mint.publicKey, owner.publicKey, program),
            createMintToInstruction(other.mint.publicKey, from.key.publicKey, payer.publicKey, more, [], program),
          ].slice(0, other.isNft ? 4 : 5),
          [from.owner, from.key],
        );
        token.accounts.splice(token.accounts.indexOf(from), 1);
        if (!other.isNft) other.accounts.push({ key: from.key, owner, amount: more });
        return;
      }
      case 5:
        await send(
          [
            [from.owner, owner],
            [owner, from.owner],
          ].map(([one, next]) =>
            createSetAuthorityInstruction(
              from.key.publicKey,
              one!.publicKey,
              AuthorityType.AccountOwner,
              next!.publicKey,
              [],
              program,
            ),
          ),
          [from.owner, owner],
        );
        return;
      case 3:
        await send(
          [
            createSetAuthorityInstruction(
              from.key.publicKey,
              from.owner.publicKey,
              AuthorityType.AccountOwner,
              owner.publicKey,
              [],
              program,
            ),
          ],
          signers,
        );
        from.owner = owner;
        return;
      default:
        await send(
          [
            open(165, to, program),
            createInitializeAccount3Instruction(to.publicKey, mint, owner.publicKey, program),
            createTransferInstruction(from.key.publicKey, to.publicKey, from.owner.publicKey, amount, [], program),
            ...(isNft && random.below(2) === 0
              ? [createCloseAccountInstruction(from.key.publicKey, payer.publicKey, from.owner.publicKey, [], program)]
              : []),
          ],
          [to, from.owner],
        );
        from.amount -= amount;
        token.accounts.push({ key: to, owner, amount });
    }
  }
  /** All of a token comes to the owner who is followed, or leaves, which is then true: which mints there are does not change. */
  async function passToken(): Promise<boolean> {
    const held = tokens.filter(({ isNft, accounts }) => !isNft && accounts.some(({ amount }) => amount > 0));
    if (held.length === 0) {
      await mintOne();
      return false;
    }
    const { mint, program, accounts } = pick(held);
    const own = accounts.filter(({ owner, amount }) => owner === wallets[0] && amount > 0);
    const owner = own.length > 0 ? wallets[1]! : wallets[0]!;
    for (const from of own.length > 0 ? own : accounts.filter(({ amount }) => amount > 0).slice(0, 1)) {
      const to = newKey(random);
      await send(
        [
          open(165, to, program),
          createInitializeAccount3Instruction(to.publicKey, mint.publicKey, owner.publicKey, program),
          createTransferInstruction(from.key.publicKey, to.publicKey, from.owner.publicKey, from.amount, [], program),
        ],
        [to, from.owner],
      );
      accounts.push({ key: to, owner, amount: from.amount });
      from.amount = 0;
    }
    return own.length > 0;
  }
  /** Returns what takes back what happened since then, on a chain that does the same. */
  function snapshot(): () => void {
    const accounts = tokens.map((token) => [token, token.accounts.map((one) => ({ ...one }))] as const);
    return () => {
      tokens.length = accounts.length;
      for (const [token, before] of accounts) token.accounts = before;
    };
  }
  async function writeCore(address: string): Promise<void> {
    const by = random.below(3);
    const to = by === 1 ? pick(people) : (pick(coreGroups) ?? pick(people));
    const authority = by === 0 ? Buffer.of(0) : Buffer.concat([Buffer.of(by), keyBytes(to)]);
    const owner = pick(wallets).publicKey.toBase58();
    await write(
      CORE_PROGRAM,
      address,
      Buffer.concat([Buffer.of(1), keyBytes(owner), authority, text('A'), text(''), Buffer.of(0)]),
    );
  }
  let joined: string | null = null;
  /** An asset comes into a collection of the authority, which is written first: the list of the authority itself stays as it is. */
  async function joinGroup(authority: string): Promise<void> {
    const isFirst = joined === null;
    joined ??= newKey(random).publicKey.toBase58();
    const group = [Buffer.of(5), keyBytes(authority), text('Group'), text(''), Buffer.alloc(8)];
    const owner = keyBytes(pick(wallets).publicKey.toBase58());
    const asset = [Buffer.of(1), owner, Buffer.of(2), keyBytes(joined), text('A'), text(''), Buffer.of(0)];
    const address = isFirst ? joined : newKey(random).publicKey.toBase58();
    await write(CORE_PROGRAM, address, Buffer.concat(isFirst ? group : asset));
  }
  async function writeGroup(address: string): Promise<void> {
    // It counts none, so that all that have an account are all of it.
    const data = [Buffer.of(5), keyBytes(pick(people)), text('Group'), text(''), Buffer.alloc(8)];
    await write(CORE_PROGRAM, address, Buffer.concat(data));
  }
  return {
    wallets,
    people,
    groups,
    coreGroups,
    tokens,
    passToken,
    snapshot,
    joinGroup,
    async act(): Promise<void> {
      const roll = random.below(16);
      if (roll >= 12) return void (await passToken());
      if (roll < 3) return await mintOne();
      if (roll < 6) return await move();
      if (roll < 8)
        return await (tokens.length === 0 ? mintOne() : writeMetadata(pick(tokens).mint.publicKey.toBase58()));
      if (roll === 8) {
        const address = coreGroups.length < 3 ? newKey(random).publicKey.toBase58() : pick(coreGroups);
        if (!coreGroups.includes(address)) coreGroups.push(address);
        return await writeGroup(address);
      }
      if (roll === 9 && cores.length > 0) {
        const [burnt] = cores.splice(random.below(cores.length), 1);
        return await write(CORE_PROGRAM, burnt as string, random.below(2) === 0 ? null : Buffer.of(0));
      }
      const address = random.below(2) === 0 && cores.length > 0 ? pick(cores) : newKey(random).publicKey.toBase58();
      if (!cores.includes(address)) cores.push(address);
      await writeCore(address);
    },
  };
}

/** Everything that is stored of assets, but for what only says that something is read again. */
async function dump(store: Store): Promise<string> {
  const db = store.read as AssetDb;
  const accounts = await db
    .selectFrom('das_accounts')
    .select(['address', 'slot', 'asset', 'program', 'data', 'token_owner'])
    .orderBy('address')
    .execute();
  const assets = await db.selectFrom('das_assets').selectAll().orderBy('id').execute();
  const rows = await db.selectFrom('das_rows').selectAll().orderBy('kind').orderBy('key').orderBy('id').execute();
  return JSON.stringify([accounts, assets, rows]);
}

eachStore('kept pages of the index', (engine) => {
  test('a page is gone with each that it depends on, and with nothing else', async (t) => {
    const store = await engine.store(t);
    await migrate(store, [{ scope: 'das', migrations }]);
    await store.write(
      async ({ db }) => void (await (db as AssetDb).updateTable('das_state').set({ slot: 9 }).execute()),
    );
    const random = createSfc32(9);
    const key = () => encode32(random.fill(new Uint8Array(32)));
    const [item, group, other, of, stranger] = [key(), key(), key(), key(), key()];
    const lists = [LIST.authority, LIST.group].map((kind) => listName(kind, listKey(keyBytes(of))));
    const strange = listName(LIST.owner, listKey(keyBytes(of)));
    const asset = { body: Buffer.from('{'), isFungible: false, uri: '', document: null, dollars: null, group };
    const keepOne = async () => {
      const pages = createAssetIndex(store, 2_000).kept;
      const view = (await pages.view())!;
      const page = { assets: [view.keep('', { ...asset, id: item })], others: [other], listed: 1 };
      view.keepPage('page', page, lists, of);
      assert.deepEqual((await pages.view())!.findPage('page'), page);
      return pages;
    };
    const isKeptAfter = async (ids: readonly string[], names: readonly Uint8Array[], isShownAgain = false) => {
      const pages = await keepOne();
      await store.write((tx) => noteChanges(tx, ids.map(keyBytes), names));
      if (isShownAgain) (await pages.view())!.keep('', { ...asset, id: item });
      return (await pages.view())!.findPage('page') !== undefined;
    };
    for (const id of [item, group, other, of]) assert.equal(await isKeptAfter([stranger, id], []), false, id);
    for (const list of lists) assert.equal(await isKeptAfter([], [strange, list]), false);
    assert.equal(await isKeptAfter([stranger], [strange]), true);
    assert.equal(await isKeptAfter([], []), true);
    // The text is there again, and the page as old as before.
    assert.equal(await isKeptAfter([item], [], true), false);
    assert.equal(await isKeptAfter([stranger], [], true), true);
    // A page has no texts of its own.
    const full = (await (await keepOne()).view())!;
    full.keep('', { ...asset, id: stranger, body: Buffer.alloc(1_200) });
    assert.equal(full.find(item, ''), undefined);
    assert.equal(full.findPage('page'), undefined);
  });
});

const missing = await chainMissing();

byCase(RUNS, (runs) =>
  eachStore('the index of followed assets', (engine) => {
    for (const { seed, steps } of runs)
      test(`random runs with forks, seed ${seed}, ${steps} steps`, {
        skip: missing ?? false,
        timeout: 180_000,
      }, async (t) => {
        const store = await engine.store(t);
        await migrate(store, [{ scope: 'das', migrations }]);
        const chain = await startChain();
        t.after(() => chain.stop());
        const random = createSfc32(seed);
        const rpc = rpcOf(chain);
        const world = await createWorld(chain, random);
        for (let made = 0; made < 12; made += 1) await world.act();
        while (world.coreGroups.length === 0 || world.tokens.length === 0) await world.act();

        const reader = {
          call: (method: string, params: readonly unknown[]) => rpc(method, params),
        } as unknown as ChainReader;
        const lacked = createLackedMethods({ monotonic: () => 0 });
        const source = (atLeast: number) =>
          createSource(reader, config, signal, lacked, { commitment: 'confirmed', atLeast });
        const log = createMemoryLog();
        const newProcessor = () => createDasProcessor({ store, source, fill: async () => undefined });
        let processor = newProcessor();

        const applied: { block: ChainBlock; below: string; version: number | null }[] = [];
        const versionNow = async () =>
          (await store.read.selectFrom('das_state').select('version').executeTakeFirstOrThrow()).version;
        /** Brings the index to the tip, or only some blocks nearer; `skips`: it passes over some. */
        async function syncNow({ most = 1_000, skips = 0 } = {}): Promise<void> {
          const standing = async ({ slot, blockhash }: ChainBlock) => {
            const block = await rpc<{ blockhash: string } | null>('getBlock', [
              slot,
              { commitment: 'confirmed', transactionDetails: 'none', rewards: false },
            ]).catch(() => null);
            return block?.blockhash === blockhash;
          };
          const dropped: (typeof applied)[number][] = [];
          for (let last = applied.at(-1); last !== undefined && !(await standing(last.block)); last = applied.at(-1)) {
            applied.pop();
            dropped.push(last);
          }
          if (dropped.length > 0) {
            const version = await versionNow();
            await store.write(async (tx) => {
              for (const { block } of dropped) await processor.revert(tx, block, 'main');
            });
            const oldest = dropped.at(-1)!;
            if (dropped.every((one) => one.version === version))
              assert.ok((await dump(store)) === oldest.below, 'a revert restores all rows');
          }
          const from =
            (applied.at(-1)?.block.slot ?? (await rpc<number>('getSlot', [{ commitment: 'confirmed' }])) - 1) + 1;
          const slots = await rpc<number[]>('getBlocks', [from, null, { commitment: 'confirmed' }]);
          for (const slot of slots.slice(skips, skips + most)) {
            const result = await rpc('getBlock', [
              slot,
              { commitment: 'confirmed', maxSupportedTransactionVersion: 0 },
            ]);
            const block = decodeBlock(slot, result);
            const [before, below] = [await versionNow(), await dump(store)];
            await processor.prepare?.(block, 'main');
            await store.write((tx) => processor.apply(tx, block, 'main'));
            const version = await versionNow();
            // Something else wrote in between.
            applied.push({ block, below, version: version === before ? version : null });
          }
        }

        let turn = Promise.resolve();
        /** One after the other. */
        const inTurn = (work: () => Promise<void>): Promise<void> => {
          turn = turn.then(work);
          return turn;
        };
        const sync = (how: Parameters<typeof syncNow>[0] = {}) => inTurn(() => syncNow(how));

        /** Reads what is followed, with stops: each upstream call may be the last of its process, and blocks come in between. */
        async function fillAll(mayStop: boolean): Promise<void> {
          let last: Promise<unknown> = Promise.resolve();
          const busy = (atLeast: number) => {
            const inner = source(atLeast);
            return new Proxy(inner, {
              get(target, name) {
                const member = target[name as keyof AccountSource];
                if (typeof member !== 'function' || name === 'places' || name === 'slotOf') return member;
                const one = async (...args: never[]) => {
                  if (mayStop && random.below(60) === 0) throw new Error('killed');
                  if (random.below(12) === 0) await inTurn(() => world.act());
                  const answer = await (member as (...all: never[]) => Promise<unknown>)(...args);
                  if (random.below(10) === 0) await sync({ most: 1 + random.below(2) });
                  return answer;
                };
                // In the order of the calls, whichever answer is faster: a seed is one run.
                return (...args: never[]) => {
                  const answer = last.then(() => one(...args));
                  last = answer.catch(() => undefined);
                  return answer;
                };
              },
            });
          };
          let now = 0;
          const clock = { now: () => 0, monotonic: () => (now += 1_000), sleep: () => sync({ most: 1 }) };
          const parts = { store, log, isFinal: false, clock, source: busy } as never;
          for (let tries = 0; ; tries += 1) {
            assert.ok(tries < 200, 'the fill does not end');
            const rows = await (store.read as AssetDb)
              .selectFrom('das_followed')
              .selectAll()
              .where('state', '=', 'filling')
              .execute();
            if (rows.length === 0) return;
            for (const { kind, key } of rows)
              await fillFollowed(parts, { kind, key: encode32(key) }, signal).catch((error: Error) => {
                if (error.message !== 'killed') throw error;
              });
          }
        }

        const [owner] = world.wallets.map((one) => one.publicKey.toBase58());
        const named = {
          collection: [world.groups[0]!, world.coreGroups[0]!],
          creator: [world.people[0]!],
          authority: [world.people[1]!],
          owner: [owner!],
          mint: [world.tokens[0]!.mint.publicKey.toBase58()],
        };
        // Small enough that some of what is kept has to go.
        const index = createAssetIndex(store, 100_000);
        /** Lists that were read, and pages that were shown as they were kept. */
        let [lists, keptPages] = [0, 0];
        const counted: typeof index = {
          ...index,
          list: (...args) => {
            lists += 1;
            return index.list(...args);
          },
        };
        const options = { ...FACTS, dialect: 'metaplex' } as const;
        const parts = {
          compressed: undefined,
          documents: undefined,
          prices: undefined,
          documentWaitMs: 0,
          group: '',
          config,
          options,
        };
        const asked = (params: object) =>
          readQuestion({ ...params, options: { showFungible: true, showUnverifiedCollections: true } }, 'metaplex');

        /** Texts that were known at once. */
        let kept = 0;

        /** What the accounts of the chain say, and the assets by it. */
        async function readTruth() {
          const accounts = await wholeChain(rpc);
          const truth = recordedSource({ name: '', accounts, transactions: [], requests: [] });
          const ids = accounts.flatMap(({ pubkey, owner: program, dataBase64 }) =>
            program === CORE_PROGRAM ||
            decodeMint({ owner: program, data: Buffer.from(dataBase64, 'base64') }).value !== null
              ? [pubkey]
              : [],
          );
          const read = await readAssets(ids, { ...parts, index: null, source: truth }, options);
          return { truth, assets: new Map(Array.from(read.assets, ([id, asset]) => [id, asset.toJSON() as Asset])) };
        }

        async function check(): Promise<void> {
          await sync();
          // Collections of a followed authority are found in blocks, and their assets read then.
          await fillAll(false);
          await sync();
          // What was read ahead of its block is looked at again with one more.
          for (let more = 0; more < 3; more += 1) {
            await chain.seal(1);
            await sync();
          }
          const { truth, assets } = await readTruth();
          const known = index.source(nobody);
          /** What is kept of earlier checks, then of this one, as an index answers that keeps nothing. */
          async function askTwice(run: typeof assetsByOwner, params: object): Promise<object> {
            const fresh = createAssetIndex(store, 1);
            const answer = await run(asked(params), { ...parts, index: fresh, source: fresh.source(nobody) });
            for (const _ of [0, 1]) {
              const before = lists;
              const again = await run(asked(params), { ...parts, index: counted, source: index.source(nobody) });
              assert.deepEqual(plainAnswer(again), plainAnswer(answer), JSON.stringify(params));
              keptPages += Number(lists === before);
            }
            return answer;
          }
          async function compare(
            run: typeof assetsByOwner,
            params: object,
            holds: (asset: Asset) => boolean,
          ): Promise<void> {
            const what = JSON.stringify(params);
            const wanted = [...assets.values()].filter((one) => !one.burnt && holds(one)).map(({ id }) => id);
            const { items } = (await askTwice(run, params)) as { readonly items: readonly Asset[] };
            const cursor = items[random.below(items.length + 1)]?.id;
            await askTwice(run, { ...params, limit: 2, ...(cursor === undefined ? {} : { cursor }) });
            await askTwice(run, { ...params, limit: 2, page: 1 + random.below(3) });
            assert.deepEqual(
              items.map(({ id }) => id),
              // The released reference lists by id, from the highest on.
              wanted.sort((a, b) => Buffer.compare(keyBytes(b), keyBytes(a))),
              what,
            );
            const checkKept = () => {
              for (const id of wanted) {
                const text = keptText(id, { index, documents: undefined, prices: undefined }, options);
                if (text === null) continue;
                kept += 1;
                assert.deepEqual(plainAnswer(text), plainAnswer(assets.get(id)), `${what} ${id}, as it was kept`);
              }
            };
            checkKept();
            // First what is kept of earlier checks, then of this one.
            for (const _ of [0, 1]) {
              const { assets: stored } = await readAssets(wanted, { ...parts, index, source: known }, options);
              for (const id of wanted)
                assert.deepEqual(plainAnswer(stored.get(id)), plainAnswer(assets.get(id)), `${what} ${id}`);
              checkKept();
            }
          }
          for (const key of named.collection)
            await compare(assetsByGroup, { groupKey: 'collection', groupValue: key }, ({ grouping }) =>
              grouping.some((one) => one.group_value === key),
            );
          for (const key of named.collection)
            assert.equal(
              await index.count(LIST.group, key, FLAG.core),
              [...assets.values()].filter(
                (one) =>
                  one.interface === 'MplCoreAsset' && one.grouping.some(({ group_value }) => group_value === key),
              ).length,
            );
          for (const key of named.creator)
            await compare(assetsByCreator, { creatorAddress: key }, ({ creators }) =>
              creators.some((one) => one.address === key),
            );
          for (const key of named.authority) {
            const isOf = ({ authorities }: Asset) => authorities.some((one) => one.address === key);
            await compare(assetsByAuthority, { authorityAddress: key }, isOf);
            const own = [...assets.values()].filter((one) => one.interface === 'MplCoreCollection' && isOf(one));
            const lists = [listName(LIST.authority, listKey(keyBytes(key)))];
            for (const { id } of own) lists.push(listName(LIST.group, listKey(keyBytes(id))));
            const hex = (names: readonly Uint8Array[]) => names.map((name) => Buffer.from(name).toString('hex')).sort();
            // Burnt assets have lists of their own.
            const burnt = lists.map((name) => Uint8Array.of(name[0]! + BURNT, ...name.subarray(1)));
            assert.deepEqual(hex(await index.listsOf(LIST.authority, key)), hex([...lists, ...burnt]));
          }
          for (const params of [{ tokenType: 'all' }, { tokenType: 'fungible' }, {}, { page: 1, limit: 3 }]) {
            const byOwner = { ownerAddress: owner, ...params };
            assert.deepEqual(
              plainAnswer(await askTwice(assetsByOwner, byOwner)),
              plainAnswer(await assetsByOwner(asked(byOwner), { ...parts, index: null, source: truth })),
            );
          }
          for (const params of [{ ownerAddress: owner }, { mintAddress: named.mint[0] }])
            assert.deepEqual(
              plainAnswer(await readTokenAccounts(asked(params), known, config)),
              plainAnswer(await readTokenAccounts(asked(params), truth, config)),
            );
        }

        /** Returns the jobs that it has started. */
        const follow = async (what: Partial<Record<FollowKind, readonly string[]>>): Promise<string[]> => {
          const started: string[] = [];
          const enqueue = async (_tx: StoreTx, jobs: readonly NewJob[]) =>
            started.push(...jobs.map(({ key }) => key as string));
          const jobs = createFillJobs({ store, log } as never, { requeue: async () => 0 }, enqueue);
          await jobs.follow(what);
          return started;
        };
        await follow(named);
        await chain.seal(1);
        await sync();
        await fillAll(true);
        await check();
        for (let step = 0; step < steps; step += 1) {
          const roll = random.below(12);
          if (roll === 0)
            await chain.fork({
              depth: 1 + random.below(3),
              replay: random.below(2) === 0 ? 'none' : 'all',
              extraBlocks: random.below(2),
            });
          else if (roll === 1) {
            // Lists that were kept of a branch that is gone.
            await check();
            const tip = () => rpc<number>('getSlot', [{ commitment: 'confirmed' }]);
            const below = await tip();
            const undo = world.snapshot();
            // What is gone from a list leaves no trace in its kept pages.
            for (let tries = 0; tries < 9 && !(await world.passToken()); tries += 1);
            await check();
            undo();
            await chain.fork({ depth: (await tip()) - below, replay: 'none', extraBlocks: 1 });
            await check();
          } else if (roll === 2) {
            await world.joinGroup(named.authority[0]!);
            await check();
          } else await world.act();
          if (random.below(9) === 0) processor = newProcessor();
          if (step === 20) {
            // Blocks that nobody has any more.
            await check();
            for (let more = 0; more < 8; more += 1) await world.act();
            await chain.seal(4);
            await sync({ skips: 8 });
            // What was kept of before may have changed in them: the chain is asked.
            const { truth, assets } = await readTruth();
            const now = await readAssets([...assets.keys()], { ...parts, index, source: index.source(truth) }, options);
            for (const [id, asset] of assets) {
              const found = now.assets.get(id);
              // The index keeps the last state of what was burnt, which the chain has no more.
              if (asset.burnt) assert.equal((found?.toJSON() as Asset | undefined)?.burnt, true, id);
              else assert.deepEqual(plainAnswer(found), plainAnswer(asset), id);
            }
            await fillAll(false);
          }
          if (random.below(3) > 0) await check();
          else if (random.below(2) === 0) await sync({ most: 1 });
        }
        await check();
        assert.equal(kept > 0, engine.dialect === 'sqlite', `${kept} texts were known at once`);
        // At least a third is asked again without a change in between.
        assert.ok(keptPages > 2.5 * steps, `${keptPages} pages were kept`);
        const states = await (store.read as AssetDb).selectFrom('das_followed').select('state').execute();
        assert.ok(states.every(({ state }) => state === 'ready') && states.length >= FOLLOW_KINDS.length - 1);

        // With all mints that may hold their own metadata, the list of an authority is whole, as soon as they were read.
        const { truth } = await readTruth();
        const whole = { authorityAddress: named.authority[0], options: { requireFullIndex: true } };
        const ask = () =>
          assetsByAuthority(readQuestion(whole, 'metaplex'), { ...parts, index, source: index.source(truth) });
        await assert.rejects(ask(), /lists by authority need Token/);
        await follow({ ...named, program: [TOKEN_2022_PROGRAM] });
        await assert.rejects(ask(), /lists by authority need Token/);
        await fillAll(false);
        assert.ok('items' in (await ask()));

        // Keys that are taken out leave nothing, the others stay complete; keys that come back are read again.
        const { mint, owner: owners } = named;
        assert.deepEqual(await follow({ mint, owner: owners }), ['sweep ']);
        assert.equal(await index.stateOf('creator', named.creator[0]!), null);
        await sweep({ store }, signal);
        const ownerList = listKey(keyBytes(owner!));
        const listed = await (store.read as AssetDb).selectFrom('das_assets').selectAll().execute();
        for (const { id, listed: by } of listed)
          assert.ok(
            encode32(id) === mint[0] ||
              readListed(by).some(({ kind, key }) => kind === LIST.owner && Buffer.compare(key, ownerList) === 0) ||
              (await index.list(LIST.group, encode32(id), { most: 1 })).length > 0 ||
              (await index.source(nobody).ofOwner(owner!)).some(
                ({ account }) => decodeTokenAccount(account).value?.mint === encode32(id),
              ),
            encode32(id),
          );
        await world.act();
        await follow(named);
        await fillAll(true);
        await check();
        assert.deepEqual(await follow({}), ['sweep ']);
        await sweep({ store }, signal);
        assert.deepEqual(JSON.parse(await dump(store)), [[], [], []]);
      });
  }),
);
