import { hash } from 'node:crypto';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import { parseCidr } from '../../src/runtime/network-address.ts';
import { PERMISSIONS, usageError } from './config.ts';
import { parseList } from './directory.ts';
import { demandMember, demandProject, type ProjectChanges } from './projects.ts';
import { type ApiKeyRow, tables } from './tables.ts';

interface NewKey {
  readonly id: string;
  readonly projectId: string;
  /** The full key: shown only once, never stored. */
  readonly key: string;
  /** Unix milliseconds. */
  readonly expiresAt: number | null;
}

/** Lists that limit a key; null or absent: no limit. */
export interface KeyLimits {
  readonly permissions?: readonly string[] | null;
  readonly cidrs?: readonly string[] | null;
  readonly origins?: readonly string[] | null;
}

/** Writes of keys. All errors are ACCESS_… with exit code 64. */
export interface Keys {
  /** `key` replaces a random one; `expiresAt` in unix milliseconds. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_NOT_A_MEMBER, ACCESS_BAD_…. */
  create(
    tx: StoreTx,
    key: {
      readonly projectId: string;
      readonly name?: string;
      readonly key?: string;
      readonly expiresAt?: number;
      /** The member who uses the key; default: the owner of the project. */
      readonly wallet?: string;
    } & KeyLimits,
  ): Promise<NewKey>;
  /** Returns false if the key was already revoked. Errors: ACCESS_UNKNOWN_KEY. */
  revoke(tx: StoreTx, id: string): Promise<boolean>;
  /**
   * Creates a key with the same name, limits and expiry; the old one ends after `overlapMs`. Errors: ACCESS_UNKNOWN_KEY,
   * ACCESS_KEY_ENDED.
   */
  rotate(tx: StoreTx, id: string, overlapMs: number): Promise<NewKey & { readonly oldEndsAt: number }>;
  /** Replaces the given lists. Errors: ACCESS_UNKNOWN_KEY, ACCESS_BAD_…. */
  limit(tx: StoreTx, id: string, limits: KeyLimits): Promise<KeyInfo>;
}

/** A key without its hash, which only the gate needs. */
export type KeyInfo = Omit<ApiKeyRow, 'hash'>;

const INFO = [
  'id',
  'project_id',
  'prefix',
  'name',
  'created_at',
  'expires_at',
  'revoked_at',
  'permissions',
  'cidrs',
  'origins',
  'successor_id',
  'wallet',
] as const;

export function createKeys(clock: Clock, random: Random, changes: Pick<ProjectChanges, 'note'>): Keys {
  return {
    async create(tx, { projectId, name, key = random.uuid(), expiresAt, wallet, ...limits }) {
      if (!isKeyForm(key)) throw usageError('ACCESS_BAD_KEY');
      const columns = columnsOf(limits);
      const db = tables(tx.db);
      await demandProject(tx, projectId);
      if (wallet !== undefined) await demandMember(tx, projectId, wallet);
      const row: ApiKeyRow = {
        id: random.uuid(),
        wallet: wallet ?? null,
        project_id: projectId,
        hash: hashApiKey(key),
        prefix: keyPrefix(key),
        name: name ?? '',
        created_at: clock.now(),
        expires_at: expiresAt ?? null,
        revoked_at: null,
        successor_id: null,
        permissions: null,
        cidrs: null,
        origins: null,
        ...columns,
      };
      await db.insertInto('api_keys').values(row).execute();
      await changes.note(tx, projectId);
      return { id: row.id, projectId, key, expiresAt: row.expires_at };
    },
    async revoke(tx, id) {
      const row = await findKeyRow(tx, id);
      if (row.revoked_at !== null) return false;
      await tables(tx.db).updateTable('api_keys').set({ revoked_at: clock.now() }).where('id', '=', id).execute();
      await changes.note(tx, row.project_id);
      return true;
    },
    async rotate(tx, id, overlapMs) {
      const old = await findKeyRow(tx, id);
      const now = clock.now();
      if (old.revoked_at !== null || (old.expires_at !== null && old.expires_at <= now))
        throw usageError('ACCESS_KEY_ENDED');
      const db = tables(tx.db);
      const key = random.uuid();
      const { permissions, cidrs, origins, name, project_id, expires_at, wallet } = old;
      const made = { id: random.uuid(), hash: hashApiKey(key), prefix: keyPrefix(key), created_at: now };
      const kept = { permissions, cidrs, origins, name, project_id, expires_at, wallet };
      await db
        .insertInto('api_keys')
        .values({ ...kept, ...made, revoked_at: null, successor_id: null })
        .execute();
      const oldEndsAt = Math.min(now + overlapMs, expires_at ?? Number.POSITIVE_INFINITY);
      await db
        .updateTable('api_keys')
        .set({ successor_id: made.id, ...(overlapMs === 0 ? { revoked_at: now } : { expires_at: oldEndsAt }) })
        .where('id', '=', id)
        .execute();
      await changes.note(tx, project_id);
      return { id: made.id, projectId: project_id, key, expiresAt: expires_at, oldEndsAt };
    },
    async limit(tx, id, limits) {
      const columns = columnsOf(limits);
      const row = await tables(tx.db)
        .updateTable('api_keys')
        .set({ id, ...columns })
        .where('id', '=', id)
        .returning(INFO)
        .executeTakeFirst();
      if (row === undefined) throw usageError('ACCESS_UNKNOWN_KEY');
      await changes.note(tx, row.project_id);
      return row;
    },
  };
}

export async function listApiKeys(store: Store, projectId?: string): Promise<KeyInfo[]> {
  let query = tables(store.read).selectFrom('api_keys').select(INFO);
  if (projectId !== undefined) query = query.where('project_id', '=', projectId);
  return await query.orderBy('created_at').orderBy('id').execute();
}

/** Reads a row that is about to be updated. Errors: ACCESS_UNKNOWN_KEY. */
async function findKeyRow(tx: StoreTx, id: string): Promise<ApiKeyRow> {
  let query = tables(tx.db).selectFrom('api_keys').selectAll().where('id', '=', id);
  if (tx.dialect === 'postgres') query = query.forUpdate();
  const row = await query.executeTakeFirst();
  if (row === undefined) throw usageError('ACCESS_UNKNOWN_KEY');
  return row;
}

function columnsOf(limits: KeyLimits): Partial<Pick<ApiKeyRow, 'permissions' | 'cidrs' | 'origins'>> {
  const { permissions, cidrs, origins } = limits;
  const text = (list: readonly string[] | null, check: (list: readonly string[]) => readonly string[]) =>
    list === null ? null : JSON.stringify(check(list));
  return {
    ...(permissions === undefined ? {} : { permissions: text(permissions, checkPermissions) }),
    ...(cidrs === undefined ? {} : { cidrs: text(cidrs, checkNetworks) }),
    ...(origins === undefined ? {} : { origins: text(origins, checkOrigins) }),
  };
}

/** The hosted form, which some tools check, is a UUID; any of these strings is accepted. */
const FORM = /^[A-Za-z0-9_.-]{1,256}$/;
const PREFIX_LENGTH = 8;

export function isKeyForm(text: string): boolean {
  return FORM.test(text);
}

export function hashApiKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** Name of a key in the cache: its hash as text, because a Buffer cannot be a map key. */
export function keyName(key: string): string {
  return hash('sha256', key, 'base64');
}

/** Enough to recognize a key in a list, and at most a quarter of it. */
export function keyPrefix(key: string): string {
  return key.slice(0, Math.min(PREFIX_LENGTH, Math.floor(key.length / 4)));
}

const MAX_ENTRIES = 100;
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:\*\.)?(?:[a-z0-9-]+\.)*[a-z0-9-]+(?::\d{1,5})?$/i;
const IPV6_ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/\[[0-9a-f:.]+\](?::\d{1,5})?$/i;

/** Errors: ACCESS_BAD_NETWORK, naming the first invalid one. */
function checkNetworks(cidrs: readonly string[]): readonly string[] {
  return checked(cidrs, 'ACCESS_BAD_NETWORK', (cidr) => parseCidr(cidr) !== null);
}

/** Errors: ACCESS_BAD_ORIGIN. */
function checkOrigins(origins: readonly string[]): readonly string[] {
  return checked(origins, 'ACCESS_BAD_ORIGIN', (origin) => ORIGIN.test(origin) || IPV6_ORIGIN.test(origin));
}

/** Errors: ACCESS_BAD_PERMISSION. */
function checkPermissions(permissions: readonly string[]): readonly string[] {
  return checked(permissions, 'ACCESS_BAD_PERMISSION', (name) => (PERMISSIONS as readonly string[]).includes(name));
}

function checked(
  values: readonly string[],
  code: 'ACCESS_BAD_NETWORK' | 'ACCESS_BAD_ORIGIN' | 'ACCESS_BAD_PERMISSION',
  isGood: (value: string) => boolean,
): readonly string[] {
  const unique = [...new Set(values)];
  const bad = unique.find((value) => !isGood(value));
  if (bad !== undefined) throw usageError(code, bad);
  if (unique.length > MAX_ENTRIES) throw usageError(code);
  return unique;
}

const DAYS = /^([1-9]\d{0,4})d$/;
const DATE = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:\d{2}))?$/;
const SPAN = /^(\d{1,5})(m|h|d)$/;
const DAY_MS = 86_400_000;
const UNIT_MS = { m: 60_000, h: 3_600_000, d: DAY_MS } as const;

/** Unix milliseconds of `90d`, `2030-01-31` (its first moment, UTC) or a full date with its zone. Errors: ACCESS_BAD_EXPIRY. */
export function parseExpiry(text: string, now: number): number {
  const days = DAYS.exec(text)?.[1];
  if (days !== undefined) return now + Number(days) * DAY_MS;
  const at = DATE.test(text) ? Date.parse(text) : Number.NaN;
  // Some parsers move a nonexistent day into the next month; the parsed date must equal the given one.
  const isReal =
    !Number.isNaN(at) && new Date(`${text.slice(0, 10)}T00:00:00Z`).toISOString().startsWith(text.slice(0, 10));
  if (!isReal || at <= now) throw usageError('ACCESS_BAD_EXPIRY');
  return at;
}

/** Milliseconds of `30m`, `24h`, `7d` or `0`. Errors: ACCESS_BAD_OVERLAP. */
export function parseOverlap(text: string): number {
  if (text === '0') return 0;
  const match = SPAN.exec(text);
  if (match === null) throw usageError('ACCESS_BAD_OVERLAP');
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS];
}

export function keyView(row: KeyInfo, now: number) {
  return {
    id: row.id,
    project: row.project_id,
    prefix: row.prefix,
    name: row.name,
    state: stateOf(row, now),
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    permissions: parseList(row.permissions),
    ips: parseList(row.cidrs),
    origins: parseList(row.origins),
    successor: row.successor_id,
    wallet: row.wallet,
  };
}

export function stateOf(row: KeyInfo, now: number): 'active' | 'revoked' | 'expired' {
  if (row.revoked_at !== null) return 'revoked';
  return row.expires_at !== null && row.expires_at <= now ? 'expired' : 'active';
}
