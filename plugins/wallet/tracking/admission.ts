import { msOfSlots } from '../../../src/lib/slot-length.ts';
import { type ChainReader, type Clock, codeOf, type Store, type StoreTx } from '../../../src/plugin/plugin.ts';
import type { RequestError } from '../../../src/plugin/request.ts';
import type { AccessPlans, BudgetName, Budgets, Caller, StoredBudgets } from '../../../src/ports/access.ts';
import {
  COMPUTE_BUDGET_PROGRAM,
  CONFIG_PROGRAM,
  ED25519_PROGRAM,
  LOADER_V1,
  LOADER_V2,
  LOADER_V3,
  LOADER_V4,
  LOOKUP_TABLE_PROGRAM,
  NATIVE_LOADER,
  SECP256K1_PROGRAM,
  SECP256R1_PROGRAM,
  STAKE_CONFIG,
  STAKE_PROGRAM,
  SYSTEM_PROGRAM,
  SYSVAR_OWNER,
  VOTE_PROGRAM,
  ZK_ELGAMAL_PROGRAM,
  ZK_TOKEN_PROGRAM,
} from '../../../src/solana/programs.ts';
import type { WalletConfig } from '../config.ts';
import type { WalletDb, WalletRefusal, WalletRow } from '../store/tables.ts';
import { dropWallets, RATE_TRANSACTIONS } from '../store/wallets.ts';
import type { ChainHistory, HistoryAskOptions, HistoryEntry } from './chain-history.ts';
import { indexFull, notAWallet, overBudget, tooBusy, walletTooLarge } from './view.ts';

/**
 * Decides which addresses are indexed for which projects. An index costs disk space while it is used, so there are limits per address
 * (programs and addresses that are too busy or too large are refused), per project (budgets of its plan), and in total.
 */
export interface WalletAdmission {
  /**
   * Checks whether a caller may have an address indexed; `row` is its known state. Calls the upstream for an address that is not indexed.
   * Errors: RequestError 400, 429 or 503; those of store and upstream.
   */
  check(row: WalletRow | undefined, address: string, caller: Caller | null, signal: AbortSignal): Promise<void>;
  /** Counts a wallet for the caller's project, in the transaction that registers it. Errors: RequestError 429, 503. */
  take(tx: StoreTx, id: number, caller: Caller, isStart: boolean): Promise<void>;
  /** Refuses addresses that are not wallets or too busy, indexed or not. Errors: RequestError 400; those of the upstream. */
  checkAddress(address: string, signal: AbortSignal): Promise<void>;
  /** Whether indexing of a wallet may continue; drops it if not. */
  mayContinue(wallet: WalletRow): Promise<boolean>;
  /** Drops wallets of projects above their storage budget, largest first. Returns how many. */
  enforceBudgets(): Promise<number>;
}

export interface AdmissionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly chain: ChainReader;
  readonly upstream: ChainHistory;
  readonly plans: AccessPlans | null;
  readonly budgets: StoredBudgets | null;
  readonly limits: WalletConfig['limits'];
}

const MINUTE_MS = 60_000;
/** A busy address is checked again after this time, one that is too large much later. */
const BUSY_MS = 3_600_000;
const LARGE_MS = 30 * 86_400_000;
/** Addresses owned or run by the runtime itself: nodes report some of them as nonexistent. */
const NATIVE = new Set([
  SYSTEM_PROGRAM,
  LOOKUP_TABLE_PROGRAM,
  LOADER_V1,
  LOADER_V2,
  LOADER_V3,
  COMPUTE_BUDGET_PROGRAM,
  CONFIG_PROGRAM,
  ED25519_PROGRAM,
  SECP256K1_PROGRAM,
  LOADER_V4,
  NATIVE_LOADER,
  SECP256R1_PROGRAM,
  STAKE_PROGRAM,
  STAKE_CONFIG,
  VOTE_PROGRAM,
  ZK_ELGAMAL_PROGRAM,
  ZK_TOKEN_PROGRAM,
]);
const SYSVAR = /^Sysvar.*1{10}$/;

/** Transactions a minute of a full page, newest first; null for a page that is not full. */
function ratePerMinute(page: readonly HistoryEntry[], slotMs: number | null): number | null {
  const [newest, oldest] = [page[0], page.at(-1)];
  if (newest === undefined || oldest === undefined || page.length < RATE_TRANSACTIONS) return null;
  const spanMs =
    newest.time !== null && oldest.time !== null
      ? (newest.time - oldest.time) * 1_000
      : msOfSlots(newest.slot - oldest.slot, slotMs);
  // Block times are whole seconds.
  return Math.round((page.length * MINUTE_MS) / Math.max(spanMs, 1_000));
}

/**
 * Which addresses get an index, and for which projects. Limits are compared before any upstream is asked, and again in the transaction that
 * takes the wallet.
 */
class Admission implements WalletAdmission {
  private readonly parts: AdmissionParts;

  constructor(parts: AdmissionParts) {
    this.parts = parts;
    parts.budgets?.provide((project) =>
      storedUse(parts.store.read as WalletDb, parts.plans, project, parts.clock.now()),
    );
  }

  private over(budget: BudgetName, project: string, ...refusal: Parameters<typeof overBudget>): RequestError {
    this.parts.budgets?.refused(budget, project);
    return overBudget(...refusal);
  }

  async checkAddress(address: string, signal: AbortSignal): Promise<void> {
    if (NATIVE.has(address) || SYSVAR.test(address)) throw notAWallet();
    const ask: HistoryAskOptions = { commitment: 'confirmed', signal };
    const [account, page] = await Promise.all([
      // A node that refuses this call does not block the address; the other limits apply.
      this.parts.upstream.account(address, ask).catch(nullWhenRefused),
      this.parts.upstream.signatures(address, { before: null }, ask),
    ]);
    if (account !== null && (account.isExecutable || account.owner === SYSVAR_OWNER || account.owner === NATIVE_LOADER))
      throw notAWallet();
    const rate = ratePerMinute(page, this.parts.chain.status().slotMs);
    if (rate !== null && rate > this.parts.limits.transactionsPerMinute) throw tooBusy(rate);
  }

  /** An earlier refusal stays valid for some time. */
  private async checkRefusal({ refused, refused_at, refused_size }: WalletRow, caller: Caller | null): Promise<void> {
    const [ageMs, size] = [this.parts.clock.now() - (refused_at ?? 0), refused_size ?? 0];
    if (refused === 'busy' && ageMs < BUSY_MS && size > this.parts.limits.transactionsPerMinute) throw tooBusy(size);
    if (refused === 'large' && ageMs < LARGE_MS && size >= this.parts.limits.transactions) throw walletTooLarge(size);
    if (refused === 'budget' && caller !== null) await this.checkRoom(this.parts.store.read as WalletDb, caller, size);
  }

  /** Whether the plan has room for a wallet with this many transactions. */
  private async checkRoom(db: WalletDb, { projectId, budgets }: Caller, size: number): Promise<void> {
    const most = budgets?.wallets ?? null;
    const mostStored = budgets?.walletTransactions ?? null;
    if (most === null && mostStored === null) return;
    const { wallets, stored } = await usedBy(db, projectId);
    if (most !== null && wallets >= most)
      throw this.over(
        'wallets',
        projectId,
        'WALLET_BUDGET',
        `The plan has room for ${most} wallets; unused wallets are dropped`,
        null,
      );
    if (mostStored !== null && stored + size >= mostStored)
      throw this.over(
        'walletTransactions',
        projectId,
        'WALLET_BUDGET',
        `The plan has room for ${mostStored} transactions of wallets`,
        null,
      );
  }

  private async checkStarts(db: WalletDb, { projectId, budgets }: Caller): Promise<void> {
    const { wallets } = await db
      .selectFrom('wallet_wallets')
      .select(({ fn }) => fn.countAll<number>().as('wallets'))
      .where('is_followed', '=', 1)
      .executeTakeFirstOrThrow();
    if (Number(wallets) >= this.parts.limits.wallets) throw indexFull();
    const most = budgets?.newWalletsPerMinute ?? null;
    if (most === null) return;
    const now = this.parts.clock.now();
    const started = await db
      .selectFrom('wallet_projects')
      .select('started_at')
      .where('project', '=', projectId)
      .where('started_at', '>', now - MINUTE_MS)
      .orderBy('started_at', 'desc')
      .limit(most)
      .execute();
    if (started.length < most) return;
    const waitMs = MINUTE_MS - (now - (started.at(-1)?.started_at ?? now));
    const words = `The plan starts ${most} wallets a minute`;
    throw this.over('newWalletsPerMinute', projectId, 'WALLET_TOO_MANY_NEW', words, Math.ceil(waitMs / 1_000));
  }

  /** Removes the largest wallet of a project; drops it unless another project uses it. False when it has none. */
  private async dropLargest(project: string): Promise<boolean> {
    return await this.parts.store.write(async (tx) => {
      const db = tx.db as WalletDb;
      const largest = await db
        .selectFrom('wallet_projects')
        .innerJoin('wallet_wallets', 'wallet_wallets.id', 'wallet_projects.wallet')
        .select(['id', 'stored', 'is_pinned'])
        .where('project', '=', project)
        .orderBy('stored', 'desc')
        .limit(1)
        .executeTakeFirst();
      if (largest === undefined) return false;
      const { id, stored, is_pinned } = largest;
      await db.deleteFrom('wallet_projects').where('wallet', '=', id).where('project', '=', project).execute();
      if (is_pinned === 0 && (await projectsOf(db, id)).length === 0)
        await dropWallets(tx, [id], this.parts.clock.now(), { refused: 'budget', size: stored });
      return true;
    });
  }

  readonly check: WalletAdmission['check'] = async (row, address, caller, signal) => {
    if (row?.is_pinned === 1 || row?.is_followed === 1) return;
    if (row !== undefined && row.refused !== null) await this.checkRefusal(row, caller);
    // Before any upstream call.
    if (caller !== null) {
      await this.checkRoom(this.parts.store.read as WalletDb, caller, 0);
      await this.checkStarts(this.parts.store.read as WalletDb, caller);
    }
    await this.checkAddress(address, signal);
  };

  readonly take: WalletAdmission['take'] = async (tx, id, caller, isStart) => {
    const db = tx.db as WalletDb;
    const { projectId } = caller;
    const now = this.parts.clock.now();
    const known = await db
      .updateTable('wallet_projects')
      .set({ requested_at: now })
      .where('wallet', '=', id)
      .where('project', '=', projectId)
      .executeTakeFirst();
    if (Number(known.numUpdatedRows) > 0) return;
    await this.checkRoom(db, caller, 0);
    if (isStart) await this.checkStarts(db, caller);
    const values = [[id, projectId, now, isStart ? now : null]];
    await tx.insertMany('wallet_projects', ['wallet', 'project', 'requested_at', 'started_at'], values, 'ignore');
  };

  readonly mayContinue: WalletAdmission['mayContinue'] = async (wallet) => {
    if (wallet.is_pinned === 1) return true;
    const drop = async (refused: WalletRefusal): Promise<false> => {
      await this.parts.store.write((tx) =>
        dropWallets(tx, [wallet.id], this.parts.clock.now(), { refused, size: wallet.stored }),
      );
      return false;
    };
    if (wallet.stored >= this.parts.limits.transactions) return await drop('large');
    const projects = await projectsOf(this.parts.store.read as WalletDb, wallet.id);
    if (projects.length === 0 || this.parts.plans === null) return true;
    for (const project of projects)
      if (!(await isOver(this.parts.plans, this.parts.store.read as WalletDb, project))) return true;
    return await drop('budget');
  };

  async enforceBudgets(): Promise<number> {
    if (this.parts.plans === null) return 0;
    const db = this.parts.store.read as WalletDb;
    let dropped = 0;
    for (const { project } of await db.selectFrom('wallet_projects').select('project').distinct().execute())
      while (await isOver(this.parts.plans, db, project)) {
        if (!(await this.dropLargest(project))) break;
        dropped += 1;
      }
    return dropped;
  }
}

export const createWalletAdmission = (parts: AdmissionParts): WalletAdmission => new Admission(parts);

/** Without a node, the list of the address decides: it fails too if nothing of it is kept. */
function nullWhenRefused(error: unknown): null {
  if (!['CHAIN_RPC_ERROR', 'CHAIN_UNREACHABLE', 'CHAIN_TIMEOUT'].includes(String(codeOf(error)))) throw error;
  return null;
}

async function projectsOf(db: WalletDb, wallet: number): Promise<readonly string[]> {
  const rows = await db.selectFrom('wallet_projects').select('project').where('wallet', '=', wallet).execute();
  return rows.map(({ project }) => project);
}

/** Wallets used by a project, and their stored transactions. A wallet of several projects counts for each. */
async function usedBy(db: WalletDb, project: string): Promise<{ readonly wallets: number; readonly stored: number }> {
  const row = await db
    .selectFrom('wallet_projects')
    .innerJoin('wallet_wallets', 'wallet_wallets.id', 'wallet_projects.wallet')
    .select(({ fn }) => [fn.countAll<number>().as('wallets'), fn.sum<number | null>('stored').as('stored')])
    .where('project', '=', project)
    .executeTakeFirstOrThrow();
  return { wallets: Number(row.wallets), stored: Number(row.stored ?? 0) };
}

/** Use of the budgets that this plugin counts. */
async function storedUse(db: WalletDb, plans: AccessPlans | null, project: string, now: number) {
  const limits = (await plans?.budgets(db as never, project)) ?? null;
  const { wallets, stored } = await usedBy(db, project);
  const { started } = await db
    .selectFrom('wallet_projects')
    .select(({ fn }) => fn.countAll<number>().as('started'))
    .where('project', '=', project)
    .where('started_at', '>', now - MINUTE_MS)
    .executeTakeFirstOrThrow();
  return {
    wallets: { used: wallets, limit: limits?.wallets ?? null },
    walletTransactions: { used: stored, limit: limits?.walletTransactions ?? null },
    newWalletsPerMinute: { used: Number(started), limit: limits?.newWalletsPerMinute ?? null },
  };
}

async function isOver(plans: AccessPlans, db: WalletDb, project: string): Promise<boolean> {
  const budgets: Budgets | null = await plans.budgets(db as never, project);
  const most = budgets?.walletTransactions ?? null;
  return most !== null && (await usedBy(db, project)).stored > most;
}
