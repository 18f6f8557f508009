import { existsSync } from 'node:fs';
import { sql } from 'kysely';
import type { Assembly } from '../../daemon/assemble.ts';
import { migrationScopes } from '../../daemon/migrations.ts';
import { finalityCheckName, type Readiness, upstreamCheckName } from '../../http/health.ts';
import { codeOf, EXIT, messageOf } from '../../lib/coded-error.ts';
import { isLagBeyond, type LagLimit, lagText } from '../../lib/slot-length.ts';
import type { ChainStatus, UnreadTransactions } from '../../ports/chain.ts';
import type { CheckResult } from '../../ports/processes.ts';
import type { Queries, Store } from '../../ports/store.ts';
import { openStore, sqliteFile } from '../../store/index.ts';
import { migrate } from '../../store/migrate.ts';
import { quickCheck } from '../../store/sqlite-backup.ts';
import { askReadiness, type RunFile } from '../running-daemon.ts';
import { type Finding, fail, failedBy, ok, warn } from './finding.ts';

const CHECK = 'store';
const QUICK_CHECK_MS = 20_000;
/** Older major versions are no longer maintained. */
const OLDEST_POSTGRES = 14;

interface StoreReport {
  readonly findings: readonly Finding[];
  /** Genesis hashes of the chains that the store is bound to. */
  readonly chains: ReadonlyMap<string, string>;
}

const nothing = (...findings: readonly Finding[]): StoreReport => ({ findings, chains: new Map() });

/** Opens an existing store; creates none and does not migrate. `dir` is null for a local chain that has not run yet. */
export async function checkStore(assembly: Assembly, dir: string | null, isRunning: boolean): Promise<StoreReport> {
  if (dir === null) return nothing(ok(CHECK, 'the first start of the local chain creates it'));
  const { core } = assembly.config;
  const file = sqliteFile(core.store.url, dir);
  if (file !== null && !existsSync(file))
    return nothing(ok(CHECK, `${file} does not exist yet; the first start creates it`));
  let store: Store;
  try {
    store = await openStore(core.store, dir);
  } catch (error) {
    return nothing(failedBy(CHECK, error, adviceFor(error, file)));
  }
  try {
    const findings = [
      file === null ? await postgresFinding(store) : await fileFinding(file),
      await schemaFinding(store, assembly),
    ];
    if (findings.some(({ level }) => level === 'fail')) return nothing(...findings);
    const gaps = isRunning ? [] : await gapFindings(store);
    return { findings: [...findings, ...gaps], chains: await chainsOf(store) };
  } catch (error) {
    return nothing(failedBy(CHECK, error, adviceFor(error, file)));
  } finally {
    await store.close().catch(() => undefined);
  }
}

const POSTGRES_ADVICE = 'is the server up, is store.url right, does pg_hba.conf let this user in?';
const SQLITE_ADVICE = 'run as the owner of the data folder; look at the disk and at dmesg';
const DESCRIPTORS_ADVICE = 'raise the limit: LimitNOFILE in the unit, ulimit -n in a shell';
const BACKUP_ADVICE = 'stop the daemon, keep a copy of the files, and bring back the last backup (parhelion restore)';

function adviceFor(error: unknown, file: string | null): string {
  if (file === null) return POSTGRES_ADVICE;
  if (codeOf(error) === 'STORE_CORRUPT') return BACKUP_ADVICE;
  return codeOf(error) === 'STORE_DESCRIPTORS' ? DESCRIPTORS_ADVICE : SQLITE_ADVICE;
}

async function fileFinding(file: string): Promise<Finding> {
  const result = await quickCheck(file, QUICK_CHECK_MS);
  if (result.kind === 'ok') return ok(CHECK, `${file} opens, quick_check finds nothing`);
  if (result.kind === 'damaged') return fail(CHECK, `${file} is damaged: ${result.first}`, BACKUP_ADVICE, EXIT.config);
  if (result.kind === 'failed') return fail(CHECK, `${file}: quick_check failed: ${result.reason}`, SQLITE_ADVICE);
  return warn(
    CHECK,
    `${file} opens; quick_check did not end within ${QUICK_CHECK_MS / 1_000} s`,
    `let it run: sqlite3 -readonly ${file} 'pragma quick_check'`,
  );
}

async function postgresFinding(store: Store): Promise<Finding> {
  const { rows } = await sql<{ server_version: string }>`show server_version`.execute(store.read);
  const version = rows[0]?.server_version ?? 'unknown';
  const detail = `PostgreSQL ${version} answers`;
  if (Number.parseInt(version, 10) >= OLDEST_POSTGRES) return ok(CHECK, detail);
  return warn(CHECK, detail, `versions before ${OLDEST_POSTGRES} are not tested`);
}

async function schemaFinding(store: Store, { plugins, config }: Assembly): Promise<Finding> {
  try {
    const steps = await migrate(store, await migrationScopes(plugins), { dryRun: true });
    if (steps.length === 0) return ok('schema', 'up to date');
    const names = steps.map(({ scope, version }) => `${scope} ${version}`).join(', ');
    const detail = `${steps.length === 1 ? 'one step waits' : `${steps.length} steps wait`}: ${names}`;
    if (config.core.store.migrate === 'auto') return ok('schema', `${detail}; the next start applies them`);
    return fail('schema', detail, 'parhelion migrate (store.migrate is manual)', 78);
  } catch (error) {
    return failedBy('schema', error, 'run the version that wrote the database, or a newer one');
  }
}

interface ReadTables {
  chain_identity: { chain: string; genesis_hash: string };
  follow_gaps: { chain: string; status: string };
}

async function chainsOf(store: Store): Promise<ReadonlyMap<string, string>> {
  if (!(await hasTable(store, 'chain_identity'))) return new Map();
  const rows = await tables(store).selectFrom('chain_identity').selectAll().execute();
  return new Map(rows.map(({ chain, genesis_hash }) => [chain, genesis_hash]));
}

async function gapFindings(store: Store): Promise<Finding[]> {
  if (!(await hasTable(store, 'follow_gaps'))) return [];
  const rows = await tables(store)
    .selectFrom('follow_gaps')
    .select(({ fn }) => ['chain', fn.countAll<number | string>().as('count')])
    .where('status', 'in', ['open', 'filling'])
    .groupBy('chain')
    .execute();
  return rows.map(({ chain, count }) => gapFinding(chain, Number(count)));
}

const tables = (store: Store) => store.read as Queries<ReadTables>;

async function hasTable(store: Store, wanted: string): Promise<boolean> {
  return (await store.read.introspection.getTables()).some(({ name }) => name === wanted);
}

/** Readiness, lag and open gaps of each running process of this data folder. */
export async function daemonFindings(running: readonly RunFile[], maxLag: LagLimit): Promise<Finding[]> {
  if (running.length === 0) return [ok('daemon', 'does not run')];
  return (await Promise.all(running.map((one) => processFindings(one, maxLag)))).flat();
}

async function processFindings(running: RunFile, maxLag: LagLimit): Promise<Finding[]> {
  try {
    return readinessFindings(running.pid, await askReadiness(running), maxLag);
  } catch (error) {
    const detail = `process ${running.pid} runs, but ${messageOf(error)}`;
    return [fail('daemon', detail, 'look at its log; if it hangs, restart it')];
  }
}

/** Checks without which the daemon is ready. Those of a thread have the name of its role before their own. */
const SHOWN_ONLY: readonly (readonly [check: string, advice: string])[] = [
  ['clients', 'name the proxy in http.trustedProxies; until then limits treat all clients as one'],
  ['sinks', 'add an upstream that has these slots (archive: true); a sink goes on by itself'],
  ['archive', 'look at ledger.archive and its server; the ledger keeps the blocks until it can be written'],
];

function shownOnly(name: string, detail: string): Finding | null {
  const found = SHOWN_ONLY.find(([check]) => check === name.replace(/^\w+: /, ''));
  return found === undefined ? null : warn(found[0], detail, found[1]);
}

export function readinessFindings(pid: number, readiness: Readiness, maxLag: LagLimit): Finding[] {
  const { ready, draining, checks, chain } = readiness;
  const state = draining ? 'is draining' : ready ? 'is ready' : 'is not ready';
  const failing = checks
    .filter(({ ok, name }) => !ok && !chain.some((one) => name === finalityCheckName(one.chain)))
    .map(({ name, detail }) =>
      chain.some((one) => name === upstreamCheckName(one.chain))
        ? warn('upstream', detail, 'it is left out for a while; if it happens again, take it out of upstream.urls')
        : (shownOnly(name, detail) ??
          fail('daemon', `${name}: ${detail}`, 'see its log; parhelion status shows all checks')),
    );
  const chains = chain.flatMap((one): Finding[] => {
    const lag = one.lagSlots;
    const lines = [ok('chain', `${one.chain}: ${one.cluster}, cursor ${one.cursorSlot ?? '-'}, behind ${lag ?? '-'}`)];
    const half = { seconds: maxLag.seconds / 2, slots: maxLag.slots === null ? null : maxLag.slots / 2 };
    if (isLagBeyond(one, half) && !isLagBeyond(one, maxLag))
      lines.push(warn('chain', `${one.chain}: ${lagText(one)}`, 'faster upstreams or disk; is it catching up?'));
    lines.push(
      ...finalityFinding(
        one,
        checks.find(({ name }) => name === finalityCheckName(one.chain)),
      ),
    );
    if (one.unread !== undefined) lines.push(unreadFinding(one.chain, one.unread));
    if (one.openGaps > 0) lines.push(gapFinding(one.chain, one.openGaps));
    return lines;
  });
  const line = `process ${pid} ${state}`;
  return [
    ready ? ok('daemon', line) : fail('daemon', line, 'wait, or fix the checks named here'),
    ...failing,
    ...chains,
  ];
}

/** What a running daemon has verified; `check` is absent while nothing is configured. */
function finalityFinding({ chain, finality }: ChainStatus, check: CheckResult | undefined): Finding[] {
  if (finality === undefined) return [];
  if (check === undefined) return [ok(FINALITY, `${chain}: certificates are not checked: ${finality.reason}`)];
  const detail = `${chain}: ${check.detail}`;
  if (!check.ok) return [warn(FINALITY, detail, 'compare with other nodes: see the runbook, certificates of finality')];
  if (finality.state === 'checking') return [ok(FINALITY, detail)];
  return [warn(FINALITY, detail, 'docs/explanation/finality.md says what is needed')];
}

const FINALITY = 'finality';

/** New forms of transactions: nothing is lost, and a later version may read them. */
function unreadFinding(chain: string, { opaque, partial, last }: UnreadTransactions): Finding {
  const { slot, signature, reason } = last;
  const counts = [
    ...(opaque > 0 ? [`${opaque} could not be read`] : []),
    ...(partial > 0 ? [`${partial} only in part`] : []),
  ];
  return warn(
    'transactions',
    `${chain}: ${counts.join(', ')} since the start; the last one, ${signature ?? 'without a signature'} in slot ${slot}: ${reason}`,
    'they are kept and served as the node sent them; look for a newer version of parhelion',
  );
}

const gapFinding = (chain: string, count: number): Finding =>
  warn('gaps', `${chain}: ${count} open`, 'parhelion backfill --gaps fills them where an upstream has the blocks');
