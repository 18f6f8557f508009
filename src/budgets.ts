import { totalmem } from 'node:os';
import { admits } from './lib/fair-share.ts';
import { GateRefusal } from './plugin/request.ts';
import {
  BUDGETS,
  type BudgetName,
  type Budgets,
  type BudgetUse,
  type Caller,
  type Lease,
  type StoredBudgets,
  type StoredUse,
  type Tenant,
  type Tenants,
} from './ports/access.ts';
import type { Clock } from './ports/clock.ts';
import type { ApiPeers } from './ports/processes.ts';
import type { Counter, Gauge, Metrics } from './ports/telemetry.ts';
import { networkOf } from './runtime/network-address.ts';

/**
 * Shared resources that one project could exhaust: bytes, sockets, subscriptions, calls. Each project has the limits of its plan; all
 * together have a shared limit. A further quarter is reserved for tenants below their fair share, so that early or long-lived holders
 * cannot lock out the others. Callers without a key are tenants by their address.
 */
export interface BudgetLedger extends Tenants {
  /** The project of a caller, whether it has shown a key or not: for calls that a page of the dashboard makes. */
  tenantOfProject(caller: Caller): Tenant;
  /** Use of one project. In-memory limits are those of its last call. Errors: those of the store. */
  useOf(projectId: string): Promise<readonly BudgetUse[]>;
  /** The in-memory budgets that projects hold, or were refused; at most `MAX_HELD` projects. */
  held(): ReadonlyMap<string, readonly BudgetUse[]>;
  /** Budgets of stored data. */
  readonly stored: StoredBudgets;
}

/** The shared limits; a missing one means no limit. */
export type Rooms = Partial<Record<BudgetName, number>>;

/** The budgets that are counted in memory; the others are counted in the database. */
const HELD = [
  ...(['requestBytes', 'answerBytes', 'upstreamCalls', 'sockets', 'subscriptions', 'subscriptionBytes'] as const),
  ...(['streams', 'streamFilters', 'streamFilterBytes', 'passedStreams'] as const),
] as const;

/** Maximum number of tenants without holdings that are kept for their refusal counts. */
const MAX_TENANTS = 10_000;
/** Maximum number of projects whose holdings are reported to other threads. */
const MAX_HELD = 1_000;
const MIN_ANSWER_BYTES = 134_217_728;
const MAX_ANSWER_BYTES = 1_073_741_824;

interface Pot {
  readonly room: number;
  used: number;
  /** Number of tenants that hold something. */
  holders: number;
  readonly refused: Counter | null;
  readonly gauge: Gauge | null;
}

/** A quarter of the memory that the process may use, within bounds. */
export function answerRoom(memoryBytes = process.constrainedMemory?.() || totalmem()): number {
  const quarter = Math.min(memoryBytes, totalmem()) / 4;
  return Math.round(Math.min(MAX_ANSWER_BYTES, Math.max(MIN_ANSWER_BYTES, quarter)));
}

/** The other processes of the API of this daemon, which hold for the same tenants. */
interface BudgetPeers extends Pick<ApiPeers, 'name' | 'answer' | 'askOthers'> {
  readonly clock: Clock;
}

export function createBudgets(
  rooms: Rooms = {},
  metrics: Metrics | null = null,
  peers: BudgetPeers | null = null,
): BudgetLedger {
  const elsewhere = peers === null ? null : createElsewhere(peers);
  const refusals =
    metrics?.counter('refused_total', 'requests refused because a budget was used up', ['budget']) ?? null;
  const used = metrics?.gauge('used', 'total that all projects hold', ['budget']) ?? null;
  const limits = metrics?.gauge('limit', 'shared limit of all projects, without the reserve', ['budget']) ?? null;
  const pots = new Map<BudgetName, Pot>(
    HELD.map((name) => {
      const room = rooms[name] ?? Number.POSITIVE_INFINITY;
      const gauge = used?.with(name) ?? null;
      gauge?.set(0);
      if (Number.isFinite(room)) limits?.with(name).set(room);
      return [name, { room, used: 0, holders: 0, refused: refusals?.with(name) ?? null, gauge }];
    }),
  );
  const tenants = new Map<string, Holder>();
  const byCaller = new WeakMap<Caller, Holder>();
  const providers: Parameters<StoredBudgets['provide']>[0][] = [];

  function find(id: string): Holder {
    const known = tenants.get(id);
    if (known !== undefined) return known;
    if (tenants.size >= MAX_TENANTS) for (const [name, one] of tenants) if (one.isIdle()) tenants.delete(name);
    const made = new Holder(id, pots, elsewhere);
    tenants.set(id, made);
    return made;
  }

  return {
    tenantOf(caller, address) {
      if (caller?.keyId != null) {
        const known = byCaller.get(caller);
        if (known !== undefined && tenants.get(known.id) === known) return known;
        const tenant = find(caller.projectId);
        tenant.limits = caller.budgets ?? null;
        byCaller.set(caller, tenant);
        return tenant;
      }
      const tenant = find(`${caller?.projectId ?? ''} ${networkOf(address)}`);
      tenant.limits = caller?.budgets ?? null;
      return tenant;
    },
    tenantOfProject(caller) {
      const tenant = find(caller.projectId);
      tenant.limits = caller.budgets ?? tenant.limits;
      return tenant;
    },
    async useOf(projectId) {
      const holder = tenants.get(projectId) ?? new Holder(projectId, pots, elsewhere);
      const stored = await Promise.all(providers.map((use) => use(projectId)));
      const found = stored.flatMap((uses) => Object.entries(uses) as [BudgetName, StoredUse][]);
      return [...holder.use(), ...found.map(([budget, use]) => ({ budget, ...use, refused: holder.refusals(budget) }))];
    },
    held() {
      const found = new Map<string, readonly BudgetUse[]>();
      const note = (isIdle: boolean): void => {
        for (const tenant of tenants.values()) {
          // The id of a caller without a key has a space.
          if (tenant.isIdle() !== isIdle || tenant.id.includes(' ')) continue;
          if (found.size >= MAX_HELD) return;
          const uses = tenant.use().filter(({ used, refused }) => used > 0 || refused > 0);
          if (uses.length > 0) found.set(tenant.id, uses);
        }
      };
      note(false);
      note(true);
      return found;
    },
    stored: {
      provide: (use) => void providers.push(use),
      refused(budget, projectId) {
        find(projectId).countRefusal(budget);
        refusals?.with(budget).add();
      },
    },
  };
}

/** What a tenant holds of one budget in this process. */
interface Account {
  /** Unique name of tenant and budget. */
  readonly key: string;
  held: number;
  refused: number;
  readonly pot: Pot;
}

/** What the tenants hold in the other processes. */
interface Elsewhere {
  heldOf(account: Account): number;
  /** It has changed here. */
  changed(account: Account): void;
}

/** A holding that lasts is known everywhere after this time; most are over before. */
const TELL_MS = 10;

function createElsewhere({ name, answer, askOthers, clock }: BudgetPeers): Elsewhere {
  const totals = new Map<string, number>();
  const bySender = new Map<string, Map<string, number>>();
  const changed = new Set<Account>();
  const told = new Map<string, number>();
  let isScheduled = false;
  /** The first message of a process that was started again replaces what its earlier life held. */
  let isFirst = true;
  answer('budgets', (message) => {
    const { from, first, held } = message as HeldElsewhere;
    const known = bySender.get(from) ?? new Map<string, number>();
    bySender.set(from, known);
    const gone = first ? [...known.keys()].map((key) => [key, 0] as const) : [];
    for (const [key, amount] of [...gone, ...held]) {
      const total = (totals.get(key) ?? 0) - (known.get(key) ?? 0) + amount;
      setOrDrop(known, key, amount);
      setOrDrop(totals, key, total);
    }
  });
  const tell = () => {
    isScheduled = false;
    const held: (readonly [string, number])[] = [];
    for (const account of changed) {
      if (account.held === (told.get(account.key) ?? 0)) continue;
      held.push([account.key, account.held]);
      setOrDrop(told, account.key, account.held);
    }
    changed.clear();
    if (held.length === 0) return;
    void askOthers('budgets', { from: name, first: isFirst, held } satisfies HeldElsewhere).catch(() => undefined);
    isFirst = false;
  };
  return {
    heldOf: ({ key }) => totals.get(key) ?? 0,
    changed(account) {
      changed.add(account);
      if (isScheduled) return;
      isScheduled = true;
      clock.timeout(TELL_MS, tell);
    },
  };
}

interface HeldElsewhere {
  readonly from: string;
  readonly first: boolean;
  readonly held: readonly (readonly [string, number])[];
}

function setOrDrop(amounts: Map<string, number>, key: string, amount: number): void {
  if (amount === 0) amounts.delete(key);
  else amounts.set(key, amount);
}

/** A tenant with its accounts. */
class Holder implements Tenant {
  readonly id: string;
  limits: Budgets | null = null;
  readonly #accounts: Map<BudgetName, Account>;
  readonly #elsewhere: Elsewhere | null;
  /** Refusals of stored budgets. */
  readonly #refusals = new Map<BudgetName, number>();

  constructor(id: string, pots: ReadonlyMap<BudgetName, Pot>, elsewhere: Elsewhere | null) {
    this.id = id;
    this.#elsewhere = elsewhere;
    this.#accounts = new Map(
      [...pots].map(([name, pot]) => [name, { key: `${id} ${name}`, held: 0, refused: 0, pot }]),
    );
  }

  limit(name: BudgetName): number | null {
    return this.limits?.[name] ?? null;
  }

  take(name: BudgetName, amount: number): Lease {
    this.hold(name, amount);
    return new HeldLease(this, name, amount);
  }

  hold(name: BudgetName, amount: number): void {
    // Nothing always fits, also where there is no room.
    if (amount === 0) return;
    const account = this.#account(name);
    const limit = this.limit(name);
    const isOver = limit !== null && account.held + (this.#elsewhere?.heldOf(account) ?? 0) + amount > limit;
    if (isOver || !admits(account.pot, account.held, amount)) throw this.refusal(name, isOver ? 'budget' : 'room');
    this.#add(account, amount);
  }

  refusal(name: BudgetName, reason: 'budget' | 'room' = 'budget'): GateRefusal {
    const account = this.#account(name);
    account.refused += 1;
    account.pot.refused?.add();
    const limit = this.limit(name);
    const details =
      reason === 'budget' && limit !== null
        ? `The plan allows at most ${limit} ${BUDGETS[name]}`
        : `There is no room for more ${BUDGETS[name]} of this project at this moment`;
    return new GateRefusal(reason, { details, retryAfterS: 1 });
  }

  give(name: BudgetName, amount: number): void {
    this.#add(this.#account(name), -amount);
  }

  count(name: BudgetName, amount: number): void {
    this.#add(this.#account(name), amount);
  }

  isIdle(): boolean {
    for (const { held } of this.#accounts.values()) if (held !== 0) return false;
    return true;
  }

  refusals(name: BudgetName): number {
    return this.#refusals.get(name) ?? 0;
  }

  countRefusal(name: BudgetName): void {
    this.#refusals.set(name, this.refusals(name) + 1);
  }

  use(): BudgetUse[] {
    return [...this.#accounts].map(([budget, { held, refused }]) => ({
      budget,
      used: held,
      limit: this.limit(budget),
      refused,
    }));
  }

  #account(name: BudgetName) {
    const account = this.#accounts.get(name);
    if (account === undefined) throw new TypeError(`${name} is not held in memory`);
    return account;
  }

  #add(account: Account, amount: number): void {
    if (amount === 0) return;
    const { pot } = account;
    if (account.held === 0) pot.holders += 1;
    account.held += amount;
    if (account.held === 0) pot.holders -= 1;
    pot.used += amount;
    pot.gauge?.set(pot.used);
    this.#elsewhere?.changed(account);
  }
}

class HeldLease implements Lease {
  readonly #tenant: Holder;
  readonly #name: BudgetName;
  #amount: number;
  #isOver = false;

  constructor(tenant: Holder, name: BudgetName, amount: number) {
    this.#tenant = tenant;
    this.#name = name;
    this.#amount = amount;
  }

  get amount(): number {
    return this.#amount;
  }

  set(amount: number): void {
    if (this.#isOver || amount === this.#amount) return;
    if (amount > this.#amount) this.#tenant.hold(this.#name, amount - this.#amount);
    else this.#tenant.give(this.#name, this.#amount - amount);
    this.#amount = amount;
  }

  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#tenant.give(this.#name, this.#amount);
    this.#amount = 0;
  }
}
