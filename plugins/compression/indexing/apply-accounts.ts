import { decode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { isCompressedTokenAccount, readTokenAccount } from '../../../src/solana/compression/accounts.ts';
import type { CompressedAccount } from '../../../src/solana/compression/events.ts';
import { LIGHT_TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { rowKeyText } from '../store/row-book.ts';
import { type CompressedAccountRow, SPENT, SUBJECT, type TokenAccountRow, u64Bytes, u64Of } from '../store/tables.ts';
import type { BlockBooks } from './block-books.ts';
import type { Plan, PlannedOutput, PlannedSpend } from './plan.ts';

/** Body of a row in `compression_early_spends`. */
interface EarlySpend {
  readonly slot: number;
  readonly signature: string;
  readonly queued: {
    readonly nullifier: string;
    readonly nullifierIndex: number | null;
    readonly txHash: string;
  } | null;
}

type Spend = PlannedSpend & { readonly slot: number };

/**
 * Adds the accounts of a block, then marks spent ones; existing rows stay. A spend of an unknown account
 * waits for it. Returns the signatures of unreadable token accounts.
 */
export async function applyAccounts(books: BlockBooks, plan: Plan): Promise<readonly Uint8Array[]> {
  const { accounts, tokenAccounts, earlySpends } = books;
  const created = plan.outputs.map(({ output }) => [output.hash]);
  await accounts.load([...created, ...plan.spends.map(({ hash }) => [hash])]);
  const fresh = plan.outputs.filter(({ output }) => accounts.get(output.hash) === null);
  const waiting = plan.spends.filter(({ hash }) => accounts.get(hash) === null);
  await earlySpends.load([...fresh.map(({ output }) => [output.hash]), ...waiting.map(({ hash }) => [hash])]);
  const spentTokens = plan.spends.filter(({ hash }) => isTokenProgram(accounts.get(hash)?.owner ?? hash));
  await tokenAccounts.load(spentTokens.map(({ hash }) => [hash]));

  await loadSubjects(books, plan.slot, fresh);

  const balances = createBalances(books);
  const unreadable: Uint8Array[] = [];
  for (const output of fresh) {
    const { hash } = output.output;
    if (accounts.get(hash) !== null) continue;
    const row = accountRow(output, plan.slot);
    const token = tokenRow(output);
    accounts.put(row);
    if (token === 'unreadable') unreadable.push(output.signature);
    else if (token !== null) tokenAccounts.put(token);
    balances.move(row, token === 'unreadable' ? null : token, 1);
    noteSubjects(books, row, plan.slot, row.created_by);
    const early = earlySpends.get(hash);
    if (early === null) continue;
    earlySpends.remove(hash);
    spend(books, balances, row, spendOf(hash, early.body));
  }
  for (const one of plan.spends) {
    const row = accounts.get(one.hash);
    if (row !== null) spend(books, balances, row, { ...one, slot: plan.slot });
    else if (earlySpends.get(one.hash) === null)
      earlySpends.put({ hash: one.hash.slice(), slot: plan.slot, body: JSON.stringify(earlyOf(one, plan.slot)) });
  }
  await balances.apply();
  return unreadable;
}

function spend(
  books: BlockBooks,
  balances: Balances,
  row: CompressedAccountRow,
  { slot, signature, queued }: Spend,
): void {
  const waits = {
    nullifier: queued?.nullifier ?? null,
    nullifier_index: queued?.nullifierIndex ?? null,
    tx_hash: queued === null ? null : Uint8Array.from(queued.txHash),
  };
  const hasPlace = row.nullifier !== null || queued === null;
  if (row.spent === SPENT.yes && hasPlace) return;
  const spentBy = Uint8Array.from(signature);
  books.accounts.put({ ...row, ...waits, spent: SPENT.yes, slot_spent: slot, spent_by: spentBy });
  noteSubjects(books, row, slot, spentBy);
  // A spend that is confirmed again was already subtracted from the balances.
  if (row.spent !== SPENT.no) return;
  const token = books.tokenAccounts.peek(row.hash) ?? null;
  if (token !== null) books.tokenAccounts.put({ ...token, spent: SPENT.yes });
  balances.move(row, token, -1);
}

/** The transaction of a spend that arrived before its account may already be in the lists. */
async function loadSubjects(books: BlockBooks, slot: number, fresh: readonly PlannedOutput[]): Promise<void> {
  const keys = fresh.flatMap((output) => {
    const { hash } = output.output;
    const early = books.earlySpends.get(hash);
    if (early === null) return [];
    const { slot: spentAt, signature } = spendOf(hash, early.body);
    const token = tokenRow(output);
    const subjects = subjectsOf(accountRow(output, slot), token === 'unreadable' ? null : token);
    return subjects.map(({ kind, subject }) => [kind, subject, spentAt, signature]);
  });
  await books.subjects.load(keys);
}

/** The lists of signatures of a transaction that created or spent this account. */
function noteSubjects(books: BlockBooks, row: CompressedAccountRow, slot: number, signature: Uint8Array): void {
  const token = books.tokenAccounts.peek(row.hash) ?? null;
  for (const { kind, subject } of subjectsOf(row, token))
    if ((books.subjects.peek(kind, subject, slot, signature) ?? null) === null)
      books.subjects.put({ kind, subject, slot, signature });
}

function subjectsOf({ owner, address }: CompressedAccountRow, token: TokenAccountRow | null) {
  return [
    { kind: SUBJECT.owner, subject: owner },
    ...(address === null ? [] : [{ kind: SUBJECT.address, subject: address }]),
    ...(token === null ? [] : [{ kind: SUBJECT.tokenOwner, subject: token.owner }]),
  ];
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));

function earlyOf({ signature, queued }: PlannedSpend, slot: number): EarlySpend {
  return {
    slot,
    signature: base64(signature),
    queued:
      queued === null
        ? null
        : {
            nullifier: base64(queued.nullifier),
            nullifierIndex: queued.nullifierIndex,
            txHash: base64(queued.txHash),
          },
  };
}

function spendOf(hash: Uint8Array, body: string): Spend {
  const { slot, signature, queued } = JSON.parse(body) as EarlySpend;
  return {
    hash,
    slot,
    signature: bytesOf(signature),
    queued:
      queued === null
        ? null
        : {
            nullifier: bytesOf(queued.nullifier),
            nullifierIndex: queued.nullifierIndex,
            txHash: bytesOf(queued.txHash),
          },
  };
}

const TOKEN_PROGRAM = decode32(LIGHT_TOKEN_PROGRAM) as Uint8Array;
/** Little-endian 0x00FFFFFFFFFFFFFF: the account is currently decompressed to the chain. */
const DECOMPRESSED = Uint8Array.from([255, 255, 255, 255, 255, 255, 255, 0]);
/** Offsets in a compressed mint: its account on chain, and the flag that it exists. */
const MINT_KEY = 84;
const MINT_FLAG = 165;
const KEY_BYTES = 32;

const isTokenProgram = (owner: Uint8Array): boolean => equalBytes(owner, TOKEN_PROGRAM);

/** Everything is copied: the bytes of the block are not kept. */
function accountRow({ output, tree, seq, signature }: PlannedOutput, slot: number): CompressedAccountRow {
  const { account, hash, leafIndex } = output;
  const { data } = account;
  return {
    hash: copy(hash),
    tree: tree.id,
    leaf_index: leafIndex,
    owner: copy(account.owner),
    lamports: u64Bytes(account.lamports),
    address: account.address === null ? null : copy(account.address),
    discriminator: data === null ? null : copy(data.discriminator),
    data: data === null ? null : copy(data.bytes),
    data_hash: data === null ? null : copy(data.hash),
    seq,
    slot_created: slot,
    created_by: copy(signature),
    spent: 0,
    slot_spent: null,
    spent_by: null,
    // Leaves of V1 trees have their sequence number from the start.
    queued: seq === null ? 1 : 0,
    nullifier: null,
    nullifier_index: null,
    tx_hash: null,
    nullified: 0,
    onchain_pubkey: onchainPubkey(account),
  };
}

/** The tokens in an account; null for other accounts, `unreadable` for malformed tokens. */
function tokenRow({ output }: PlannedOutput): TokenAccountRow | null | 'unreadable' {
  const { account, hash, wallet } = output;
  if (account.data === null || !isCompressedTokenAccount(account, TOKEN_PROGRAM)) return null;
  const token = readTokenAccount(account.data.bytes);
  if (token === null) return 'unreadable';
  return {
    hash: copy(hash),
    owner: copy(token.owner),
    mint: copy(token.mint),
    delegate: token.delegate === null ? null : copy(token.delegate),
    state: token.state === 'frozen' ? 1 : 0,
    amount: u64Bytes(token.amount),
    tlv: token.tlv === null ? null : copy(token.tlv),
    spent: 0,
    ata_owner: wallet === null ? null : copy(wallet),
  };
}

function onchainPubkey(account: CompressedAccount): Uint8Array | null {
  const { owner, data } = account;
  if (data === null) return null;
  const { bytes, discriminator } = data;
  if (equalBytes(discriminator, DECOMPRESSED)) return bytes.length < KEY_BYTES ? null : bytes.slice(0, KEY_BYTES);
  const isMint = isTokenProgram(owner) && !isCompressedTokenAccount(account, TOKEN_PROGRAM) && bytes[MINT_FLAG] === 1;
  return isMint ? bytes.slice(MINT_KEY, MINT_KEY + KEY_BYTES) : null;
}

/** `slice` of a Buffer would be a view. */
const copy = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes);

/** Sums the balance changes of a block. */
interface Balances {
  /** `sign` 1: the account was created; -1: it was spent. */
  move(account: CompressedAccountRow, token: TokenAccountRow | null, sign: 1 | -1): void;
  /** Writes the sums into the books. An empty balance has no row. */
  apply(): Promise<void>;
}

interface Sum {
  readonly key: readonly Uint8Array[];
  amount: bigint;
}

export function createBalances({ balances, tokenBalances }: BlockBooks): Balances {
  const lamports = new Map<string, Sum>();
  const tokens = new Map<string, Sum>();
  const add = (sums: Map<string, Sum>, key: readonly Uint8Array[], amount: bigint) => {
    if (amount === 0n) return;
    const name = rowKeyText(key);
    const sum = sums.get(name);
    if (sum === undefined) sums.set(name, { key, amount });
    else sum.amount += amount;
  };
  return {
    move(account, token, sign) {
      add(lamports, [account.owner], BigInt(sign) * u64Of(account.lamports));
      if (token !== null) add(tokens, [token.owner, token.mint], BigInt(sign) * u64Of(token.amount));
    },
    async apply() {
      const owners = [...lamports.values()].filter(({ amount }) => amount !== 0n);
      await balances.load(owners.map(({ key }) => key));
      for (const { key, amount } of owners) {
        const sum = amountOf(balances.get(...key)?.lamports) + amount;
        if (sum === 0n) balances.remove(...key);
        else balances.put({ owner: key[0] as Uint8Array, lamports: u64Bytes(sum) });
      }
      const holdings = [...tokens.values()].filter(({ amount }) => amount !== 0n);
      await tokenBalances.load(holdings.map(({ key }) => key));
      for (const { key, amount } of holdings) {
        const sum = amountOf(tokenBalances.get(...key)?.amount) + amount;
        if (sum === 0n) tokenBalances.remove(...key);
        else tokenBalances.put({ owner: key[0] as Uint8Array, mint: key[1] as Uint8Array, amount: u64Bytes(sum) });
      }
    },
  };
}

const amountOf = (bytes: Uint8Array | undefined): bigint => (bytes === undefined ? 0n : u64Of(bytes));
