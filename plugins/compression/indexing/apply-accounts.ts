import { type AccountRow, SPENT, SUBJECT, type TokenAccountRow } from '../store/tables.ts';
import { accountRow, isTokenProgram, tokenRow } from './account-rows.ts';
import { type Balances, createBalances } from './balances.ts';
import type { BlockBooks } from './block-books.ts';
import type { Plan, PlannedOutput, PlannedSpend } from './plan.ts';

/** What stands in `compression_early_spends`. */
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
 * Adds the accounts of a block, then marks the spent ones; what is known already stays as it is. A spend of an account that is not known
 * waits for it. Returns the token accounts whose data cannot be read.
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
  await balances.settle();
  return unreadable;
}

function spend(books: BlockBooks, balances: Balances, row: AccountRow, { slot, signature, queued }: Spend): void {
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
  // Balances are without it already where it is told again.
  if (row.spent !== SPENT.no) return;
  const token = books.tokenAccounts.peek(row.hash) ?? null;
  if (token !== null) books.tokenAccounts.put({ ...token, spent: SPENT.yes });
  balances.move(row, token, -1);
}

/** Of a spend that came before its account, the transaction may be in the lists already. */
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

/** The lists of signatures that a transaction belongs to, because it made or spent this account. */
function noteSubjects(books: BlockBooks, row: AccountRow, slot: number, signature: Uint8Array): void {
  const token = books.tokenAccounts.peek(row.hash) ?? null;
  for (const { kind, subject } of subjectsOf(row, token))
    if ((books.subjects.peek(kind, subject, slot, signature) ?? null) === null)
      books.subjects.put({ kind, subject, slot, signature });
}

function subjectsOf({ owner, address }: AccountRow, token: TokenAccountRow | null) {
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
    ...{ slot, signature: base64(signature) },
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
    ...{ hash, slot, signature: bytesOf(signature) },
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
