import { timingSafeEqual } from 'node:crypto';
import { BlockList } from 'node:net';
import { sql } from 'kysely';
import type { LRUCache } from 'lru-cache';
import { CodedError } from '../../src/lib/coded-error.ts';
import { inList } from '../../src/lib/in-list.ts';
import { ipFamily } from '../../src/lib/ip-family.ts';
import { createLru } from '../../src/lib/lru.ts';
import { type Caller, type Clock, GateRefusal, type Store } from '../../src/plugin/plugin.ts';
import type { Queries } from '../../src/ports/store.ts';
import { parseCidr } from '../../src/runtime/network-address.ts';
import { createSingleFlight } from '../../src/runtime/single-flight.ts';
import {
  billingDayOf,
  createAccount,
  isAtRest,
  isMetered,
  type ProjectAccount,
  type ProjectState,
  takeState,
  toMicro,
} from './account.ts';
import { ACCESS_ERRORS } from './config.ts';
import type { Plans } from './plans.ts';
import { type AccessTables, type ApiKeyRow, tables } from './tables.ts';

/** A cached key. */
export interface KnownKey {
  readonly name: string;
  readonly caller: Caller;
  readonly account: ProjectAccount;
  readonly rules: KeyRules;
  /** Unix milliseconds. */
  readonly expiresAt: number | null;
  /** Monotonic milliseconds at which its read began. */
  readonly askedMs: number;
  /** Number of changes that had been noticed by then. */
  readonly askedAt: number;
  /** How many keys without lists take as much memory. */
  readonly weight: number;
}

interface DirectoryParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly plans: () => Plans;
  readonly keyCacheSize: number;
  readonly keyCacheMs: number;
}

/**
 * A cache of stored keys and projects. What it returns was the state of the store at most `keyCacheMs` ago: a key is read once, and then
 * one query for all keys shows which projects have changed since. Credits are read from the store as often, because other processes spend
 * them.
 */
export interface Directory {
  /** Looks up the cache; `name` is the hash of the key as text. Undefined: not cached. Throws `bad-key` for a cached unknown key. */
  known(name: string): KnownKey | undefined;
  /** Whether the key is as the store had it at most `keyCacheMs` ago. */
  isCurrent(key: KnownKey): boolean;
  /** Whether the key was valid at its last read, however long ago. */
  isFamiliar(name: string): boolean;
  /** Asks the store for the key, or whether it has changed; concurrent callers share one query. Throws `bad-key`. */
  ask(name: string): Promise<KnownKey>;
  /** The account of a project, for calls without a key. Null: the project does not exist. */
  project(id: string): ProjectAccount | Promise<ProjectAccount | null>;
  /** Invalidates the cached data of a project and its keys: it is read again before its next use. */
  forget(projectId: string): void;
}

/** The start of a read. */
interface ReadStart {
  /** Revision of the cached account when the read began; undefined: no account was cached. */
  readonly revision: number | undefined;
  /** Monotonic milliseconds. */
  readonly askedMs: number;
  /** Reads are numbered in the order in which they begin. */
  readonly number: number;
  /** Number of changes that had been noticed by then. */
  readonly askedAt: number;
}

/** Maximum number of cached unknown keys; in a separate cache, so that guesses cannot evict known keys. */
const UNKNOWN_KEYS = 1_000;

/**
 * Keys and projects as this process knows them. What is read is valid for `keyCacheMs`, or longer when a look at the store's changes found
 * nothing. A read that began before a noticed change never counts as newer than it: `changes` numbers them.
 */
class KeyDirectory implements Directory {
  private readonly parts: DirectoryParts;
  private readonly keys: LRUCache<string, KnownKey>;
  private readonly badKeys: LRUCache<string, true>;
  private readonly accounts: LRUCache<string, ProjectAccount>;
  private readonly asking = createSingleFlight<string, KnownKey>();
  /** Counts noticed changes: a read that began before one may have missed it. */
  private changes = 0;
  private reads = 0;
  /** Number of the last change of a project whose account was not cached. A new account starts with it. */
  private otherChangedAt = 0;
  /** Looks notice all changes after reads that began from here on. */
  private lookedFrom = Number.POSITIVE_INFINITY;
  /** Number in the store of the last change that a look found; null before the first look. */
  private lastChange: number | null = null;
  /** Start of the last look for changes. */
  private lookedMs = Number.NEGATIVE_INFINITY;
  private looking: Promise<void> | null = null;

  constructor(parts: DirectoryParts) {
    this.parts = parts;
    this.keys = createLru<string, KnownKey>({ max: parts.keyCacheSize, sizeCalculation: ({ weight }) => weight });
    this.badKeys = createLru<string, true>({
      max: UNKNOWN_KEYS,
      ttl: parts.keyCacheMs,
      ttlResolution: 0,
      perf: { now: () => this.now() },
    });
    this.accounts = createLru<string, ProjectAccount>({
      max: parts.keyCacheSize,
      // Keys that still have it are read again: changes of the project no longer reach it.
      dispose(account) {
        account.changedAt = Number.POSITIVE_INFINITY;
      },
    });
  }

  // Plus one, because the cache treats a start at 0 as missing, and a clock may start there.
  private now() {
    return this.parts.clock.monotonic() + 1;
  }

  private accountOf(state: ProjectState, { revision, askedMs, number, askedAt }: ReadStart): ProjectAccount {
    const account = this.accounts.get(state.projectId);
    if (account === undefined) {
      const made = createAccount(state, this.parts.clock.now());
      made.readMs = askedMs;
      made.readNumber = number;
      made.changedAt = this.otherChangedAt;
      this.accounts.set(state.projectId, made);
      return made;
    }
    // A later read, or a write, may have brought what this one missed: looks for changes do not find it again.
    const isOlder = number < account.readNumber || askedMs < account.readMs;
    if (askedAt < account.changedAt || isOlder) return account;
    account.readMs = askedMs;
    account.readNumber = number;
    // A write ran during the query: its result is newer.
    if (account.revision === revision && isAtRest(account)) takeState(account, state, this.parts.clock.now());
    else {
      account.limits = state.limits;
      account.isDisabled = state.isDisabled;
    }
    return account;
  }

  private asked(revision: number | undefined): ReadStart {
    this.reads += 1;
    return { revision, askedMs: this.parts.clock.monotonic(), number: this.reads, askedAt: this.changes };
  }

  /** Whether the last look would have noticed a change. */
  private isUnchanged({ askedAt, account }: KnownKey) {
    return askedAt >= this.lookedFrom && askedAt >= account.changedAt;
  }

  /** When the store last had the key as it is here. */
  private keyMs(key: KnownKey): number {
    const { askedMs, askedAt, account } = key;
    if (askedAt < account.changedAt) return Number.NEGATIVE_INFINITY;
    const ms = this.isUnchanged(key) ? Math.max(askedMs, this.lookedMs) : askedMs;
    return isMetered(account) ? Math.min(ms, account.readMs) : ms;
  }

  /** Notices what has changed since the last look. */
  private look(): Promise<void> {
    this.looking ??= this.lookOnce().finally(() => {
      this.looking = null;
    });
    return this.looking;
  }

  private async lookOnce(): Promise<void> {
    const startedMs = this.parts.clock.monotonic();
    const rows = await findChanges(this.parts.store, this.lastChange);
    if (this.lastChange === null) this.lookedFrom = ++this.changes;
    else for (const { id } of rows) this.forget(id);
    this.lastChange = rows[0]?.change_number ?? this.lastChange ?? 0;
    this.lookedMs = startedMs;
  }

  forget(projectId: string): void {
    this.changes += 1;
    const account = this.accounts.peek(projectId);
    if (account === undefined) this.otherChangedAt = this.changes;
    else {
      account.changedAt = this.changes;
      account.readMs = Number.NEGATIVE_INFINITY;
    }
    // One of its keys may be new.
    this.badKeys.clear();
  }

  private async read(name: string): Promise<KnownKey> {
    const start = this.asked(this.keys.peek(name)?.account.revision);
    const { askedMs, askedAt } = start;
    const found = await findKey(this.parts.store, this.parts.plans(), Buffer.from(name, 'base64'));
    if (found === null) {
      this.keys.delete(name);
      if (this.parts.keyCacheMs > 0) this.badKeys.set(name, true);
      throw new GateRefusal('bad-key');
    }
    const { keyId, rules, expiresAt, wallet, weight, project } = found;
    const { limits } = project.state;
    const account = this.accountOf(project.state, start);
    const { projectId } = account;
    const key: KnownKey = {
      name,
      rules,
      expiresAt,
      account,
      askedMs,
      askedAt,
      weight,
      caller: { projectId, keyId, plan: limits.plan, wallet, budgets: limits.budgets },
    };
    this.keys.set(name, key);
    // Looks notice nothing before the first one: keys from before it are read once more.
    if (this.lastChange === null && this.keys.size > 1) this.look().catch(() => undefined);
    return key;
  }

  /** Whether it is time for a refresh in the background, so that calls with busy keys never wait. */
  private isOld(ms: number) {
    return this.parts.clock.monotonic() > ms + this.parts.keyCacheMs / 2;
  }

  private async refresh(name: string): Promise<KnownKey> {
    const key = this.keys.get(name);
    if (key !== undefined && !(isMetered(key.account) && this.isOld(key.account.readMs))) {
      await this.look();
      if (this.isUnchanged(key)) return key;
    }
    return await this.read(name);
  }

  ask(name: string): Promise<KnownKey> {
    return this.asking.run(name, () => this.refresh(name));
  }

  isCurrent(key: KnownKey) {
    return this.parts.clock.monotonic() <= this.keyMs(key) + this.parts.keyCacheMs;
  }

  readonly known: Directory['known'] = (name) => {
    const key = this.keys.get(name);
    if (key === undefined) {
      if (this.badKeys.has(name)) throw new GateRefusal('bad-key');
      return undefined;
    }
    if (this.parts.keyCacheMs === 0 || !this.isCurrent(key)) return undefined;
    // An account stays as long as one of its keys.
    this.accounts.get(key.account.projectId);
    if (this.isOld(this.keyMs(key)) && this.asking.get(name) === undefined) void this.ask(name);
    return key;
  };

  readonly isFamiliar: Directory['isFamiliar'] = (name) => this.keys.has(name);

  readonly project: Directory['project'] = (id) => {
    const account = this.accounts.get(id);
    if (account !== undefined && this.parts.clock.monotonic() <= account.readMs + this.parts.keyCacheMs) return account;
    const start = this.asked(account?.revision);
    return findProject(this.parts.store, this.parts.plans(), id).then((found) =>
      found === null ? null : this.accountOf(found.state, start),
    );
  };
}

export const createDirectory = (parts: DirectoryParts): Directory => new KeyDirectory(parts);

/** The projects that changed after a number, or the newest one; the newest first. */
async function findChanges(store: Store, after: number | null) {
  return await tables(store.read)
    .selectFrom('projects')
    .select(['id', 'change_number'])
    .$if(after === null, (query) => query.limit(1))
    .where('change_number', '>', after ?? -1)
    .orderBy('change_number', 'desc')
    .execute();
}

/** A stored key that is not revoked, of a project that is not disabled. */
interface FoundKey {
  readonly keyId: string;
  readonly expiresAt: number | null;
  readonly rules: KeyRules;
  /** Wallet of the member that the key was created for, else of the project's owner. */
  readonly wallet: string | null;
  readonly weight: number;
  readonly project: FoundProject;
}

interface FoundProject {
  readonly wallet: string | null;
  readonly state: ProjectState;
}

/** Length of lists that take about as much memory as the rest of a key. */
const KEY_BYTES = 256;

const sizeOf = ({ permissions, cidrs, origins }: Lists): number =>
  (permissions?.length ?? 0) + (cidrs?.length ?? 0) + (origins?.length ?? 0);

/** Reads a key in one query. Null for an unknown or revoked key, or one of a disabled project. */
async function findKey(store: Store, plans: Plans, hash: Buffer): Promise<FoundKey | null> {
  const row = await withProject(tables(store.read))
    .innerJoin('api_keys', 'api_keys.project_id', 'projects.id')
    .select([
      'api_keys.id as key_id',
      'api_keys.hash',
      'api_keys.expires_at',
      'api_keys.permissions',
      'api_keys.cidrs',
      'api_keys.origins',
      'api_keys.wallet as member',
    ])
    .where('api_keys.hash', '=', hash)
    .where('api_keys.revoked_at', 'is', null)
    .where('projects.disabled_at', 'is', null)
    .executeTakeFirst();
  if (row === undefined || !timingSafeEqual(row.hash, hash)) return null;
  const project = readProject(row, plans);
  const wallet = row.member ?? project.wallet;
  const weight = 1 + Math.floor(sizeOf(row) / KEY_BYTES);
  return { keyId: row.key_id, expiresAt: row.expires_at, rules: readRules(row), wallet, weight, project };
}

/** The parts of a key that may change while a long-lived caller uses it. */
export type KeyRights = Pick<ApiKeyRow, 'expires_at' | 'permissions' | 'cidrs' | 'origins'> & { readonly plan: string };

/** By key id; revoked keys and those of disabled projects are left out. */
export async function findRights(store: Store, keyIds: readonly string[]): Promise<ReadonlyMap<string, KeyRights>> {
  const rows = await tables(store.read)
    .selectFrom('api_keys')
    .innerJoin('projects', 'projects.id', 'api_keys.project_id')
    .select(['api_keys.id', 'expires_at', 'permissions', 'cidrs', 'origins', 'projects.plan'])
    .where(inList(store.dialect, 'api_keys.id', keyIds))
    .where('revoked_at', 'is', null)
    .where('disabled_at', 'is', null)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

async function findProject(store: Store, plans: Plans, id: string): Promise<FoundProject | null> {
  const row = await withProject(tables(store.read)).where('projects.id', '=', id).executeTakeFirst();
  return row === undefined ? null : readProject(row, plans);
}

function withProject(db: Queries<AccessTables>) {
  return db
    .selectFrom('projects')
    .leftJoin('usage_cycles', (join) =>
      join
        .onRef('usage_cycles.project_id', '=', 'projects.id')
        .on(
          'usage_cycles.cycle_start',
          '=',
          sql<string>`(select max(cycle_start) from usage_cycles as newest where newest.project_id = projects.id)`,
        ),
    )
    .select([
      'projects.id',
      'projects.plan',
      'projects.overrides',
      'projects.wallet',
      'projects.created_at',
      'projects.billing_day',
      'projects.prepaid_granted',
      'projects.prepaid_used',
      'projects.prepaid_used_micro',
      'projects.disabled_at',
      'usage_cycles.cycle_start',
      'usage_cycles.regular',
      'usage_cycles.regular_micro',
      'usage_cycles.prepaid',
      'usage_cycles.prepaid_micro',
    ]);
}

type ProjectJoinRow = NonNullable<Awaited<ReturnType<ReturnType<typeof withProject>['executeTakeFirst']>>>;

function readProject(row: ProjectJoinRow, plans: Plans): FoundProject {
  const limits = plans.limitsOf(row.plan, row.overrides);
  if (limits === null)
    throw new CodedError('ACCESS_UNKNOWN_PLAN', ACCESS_ERRORS.ACCESS_UNKNOWN_PLAN, { facts: { plan: row.plan } });
  const spent = {
    regular: toMicro(row.regular ?? 0, row.regular_micro ?? 0),
    prepaid: toMicro(row.prepaid ?? 0, row.prepaid_micro ?? 0),
    prepaidLeft: toMicro(row.prepaid_granted, 0) - toMicro(row.prepaid_used, row.prepaid_used_micro),
  };
  const billingDay = row.billing_day ?? billingDayOf(row.created_at);
  return {
    wallet: row.wallet,
    state: {
      projectId: row.id,
      isDisabled: row.disabled_at !== null,
      limits,
      billingDay,
      spent,
      cycleStart: row.cycle_start ?? '',
    },
  };
}

/** Restrictions of a key. */
export interface KeyRules {
  /** Products and named permissions; null: all. */
  readonly permissions: ReadonlySet<string> | null;
  /** Whether a client address may use it; null: all may. */
  readonly allowsAddress: ((address: string) => boolean) | null;
  /** Whether a page of this origin may use it; null: all callers may, also without an origin. */
  readonly allowsOrigin: ((origin: string | undefined) => boolean) | null;
}

/** The three stored lists of a key: JSON, or null for no limit. */
type Lists = Pick<ApiKeyRow, 'permissions' | 'cidrs' | 'origins'>;

/** Shared by all keys without lists. */
const NO_RULES: KeyRules = { permissions: null, allowsAddress: null, allowsOrigin: null };

export function readRules(row: Lists): KeyRules {
  if (row.permissions === null && row.cidrs === null && row.origins === null) return NO_RULES;
  const permissions = parseList(row.permissions);
  const cidrs = parseList(row.cidrs);
  const origins = parseList(row.origins);
  return {
    permissions: permissions === null ? null : new Set(permissions),
    allowsAddress: cidrs === null ? null : createNetworks(cidrs),
    allowsOrigin: origins === null ? null : createOrigins(origins),
  };
}

export function parseList(text: string | null): readonly string[] | null {
  return text === null ? null : (JSON.parse(text) as string[]);
}

/** Whether an address is in one of the networks. A malformed stored network allows nothing. */
export function createNetworks(cidrs: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const network = parseCidr(cidr);
    if (network !== null) list.addSubnet(network.address, network.prefix, network.family === 6 ? 'ipv6' : 'ipv4');
  }
  // Remembers the last allowed address: the same clients call repeatedly, and a look-up allocates objects.
  let lastAllowed = '';
  return (address) => {
    if (address === lastAllowed) return true;
    const family = ipFamily(address);
    if (family === 0 || !list.check(address, family === 6 ? 'ipv6' : 'ipv4')) return false;
    lastAllowed = address;
    return true;
  };
}

function createOrigins(origins: readonly string[]): (origin: string | undefined) => boolean {
  const exact = new Set(origins.map((origin) => origin.toLowerCase()));
  // `https://*.app.example` matches all subdomains.
  const suffixes = [...exact].flatMap((origin) => {
    const [scheme, host] = origin.split('://*');
    return host === undefined ? [] : [{ scheme: `${scheme}://`, host }];
  });
  return (given) => {
    if (given === undefined) return false;
    const origin = given.toLowerCase();
    if (exact.has(origin)) return true;
    return suffixes.some(
      ({ scheme, host }) =>
        origin.startsWith(scheme) &&
        origin.endsWith(host) &&
        /^[a-z0-9.-]+$/.test(origin.slice(scheme.length, -host.length)),
    );
  };
}
